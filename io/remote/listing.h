#pragma once

#include <string>
#include <string_view>

#include "io/remote/http.h"
#include "io/remote/object_store.h"
#include "ringfeed/status.h"

namespace ringfeed {

// Each reads one page of at most 10,000 objects. kDamaged if it is none.

/// S3's and Google's answer to ListObjectsV2 (Amazon S3 API reference).
Status ReadS3Listing(std::string_view text, ListingPage* page);
/// Azure's List Blobs (Blob service REST API). Folders of a hierarchical account are left out.
Status ReadAzureListing(std::string_view text, ListingPage* page);
/// Hugging Face's tree of a repository (Hub API endpoints), whose next page's URL is in its header.
/// The objects have no ETag: that of the answer with an object's bytes counts, and where these lie
/// in another store it is that store's, neither the tree's "oid" nor X-Linked-Etag.
Status ReadHuggingFaceListing(const HttpResponse& response, ListingPage* page);

}  // namespace ringfeed
