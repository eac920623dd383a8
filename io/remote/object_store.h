#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/remote/address.h"
#include "io/remote/http.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// An object as a listing tells it.
struct ListedObject {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;  ///< as the header has it, with its quotes; "": the answer to a GET tells it
};

/// One page of a listing.
struct ListingPage {
  std::vector<ListedObject> objects;
  std::string next;  ///< what the next page is asked for with; "": this is the last
};

/// An object that is written, as the requests need it.
struct ObjectWrite {
  std::string key;
  std::string mark;      ///< letters and digits that the object keeps: they tell whose it is
  bool replaces = true;  ///< false: the store is asked to refuse it if one of that name is there
  std::string upload;    ///< the store's name of the upload, once it has begun
  std::vector<std::string> parts{};  ///< of those that the store has, what it calls them
};

/// What is asked for while an object is written.
enum class WriteStep : std::uint8_t {
  kWhole,     ///< a small object, by one request
  kBegin,     ///< an upload in parts
  kPart,      ///< the next one
  kComplete,  ///< makes an object of the parts
  kAbort,     ///< drops them
};
/// The end of the header's name that has ObjectWrite::mark.
inline constexpr char kMarkHeader[] = "-meta-ringfeedmark";

/// How the objects of one bucket are asked for: addresses, authorization, listings. It sends
/// nothing itself, but for credentials. Thread safe.
class ObjectStore {
 public:
  using Query = std::vector<std::pair<std::string, std::string>>;

  virtual ~ObjectStore() = default;

  /// Completes a request for `key`, whose method, headers and body are there: its URL and its
  /// authorization as of now. The URL is to be sent as it is, with "//" and "/./" in its path, and
  /// may hold a secret: ShownAddress hides it. To be called anew for each try. May block for
  /// credentials. Fails if there are none, with where they were looked for.
  virtual Status Prepare(const std::string& key, const Query& query, HttpRequest* request) = 0;
  /// The same for one page of the objects whose keys begin with `prefix`; `next` is the page
  /// before's. A page may have others besides: Hugging Face lists whole folders. kUnsupported if
  /// the store has no listings (plain HTTP).
  virtual Status PrepareListing(const std::string& prefix, const std::string& next,
                                HttpRequest* request) = 0;
  /// Reads such a page. kDamaged if it is none.
  virtual Status ReadListing(const HttpResponse& response, ListingPage* page) = 0;
  /// Completes a request for a step of writing an object; `bytes` are those of kWhole and kPart,
  /// and outlive the request. A step that this store does not have leaves the URL empty.
  /// kUnsupported, with the remedy, if its objects can only be read.
  virtual Status PrepareWrite(WriteStep step, const ObjectWrite& write, std::string_view bytes,
                              HttpRequest* request);
  /// Reads the answer to such a request; what it tells is noted in `write`. kDamaged if it makes no
  /// sense, kResourceExhausted if it is good and tells of a failure (S3's to kComplete).
  virtual Status ReadWrite(WriteStep step, const HttpResponse& response, ObjectWrite* write);
  /// Looks at an answer that is neither 2xx nor a failure that passes (429, 5xx). True if it tells
  /// something that a request prepared anew would use: another region, credentials that expired.
  virtual bool Learn(const HttpResponse& response) = 0;
  /// The failure that an answer stands for, in words, without secrets: kNotFound (404, 410),
  /// kPermissionDenied (401, 403), kInvalidArgument (412: it changed), kIoError, …
  virtual Status Explain(const HttpResponse& response) = 0;
};

/// The store of an address; one object for all addresses of a bucket. `call` sends what credentials
/// need. Reads the environment and the files that it names. kInvalidArgument, with the remedy, if
/// these cannot be understood.
Status OpenObjectStore(const RemoteAddress& address, const HttpCall& call,
                       std::shared_ptr<ObjectStore>* store);

}  // namespace ringfeed
