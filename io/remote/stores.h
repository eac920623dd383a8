#pragma once

#include <memory>
#include <string>

#include "io/remote/address.h"
#include "io/remote/http.h"
#include "io/remote/object_store.h"
#include "io/remote/xml.h"
#include "ringfeed/status.h"

namespace ringfeed {

// OpenObjectStore for an address of each kind.
Status OpenS3Store(const RemoteAddress& address, const HttpCall& call,
                   std::shared_ptr<ObjectStore>* store);
Status OpenGoogleStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store);
Status OpenAzureStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store);
Status OpenHuggingFaceStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store);
Status OpenHttpStore(const RemoteAddress& address, std::shared_ptr<ObjectStore>* store);

/// The failure of an answer with that status and those words of the store's. `if_denied` is the
/// remedy if the server refuses and its code tells no better one.
Status FailureOf(const std::string& service, int http_status, const StoreError& error,
                 const std::string& if_denied);

/// A token for a header, from the environment; "" if it is not set. kInvalidArgument if it is no
/// line of printable characters. The second one is for a token that was read elsewhere.
Status ReadToken(const char* variable, std::string* token);
Status CheckToken(const std::string& place, std::string* token);

}  // namespace ringfeed
