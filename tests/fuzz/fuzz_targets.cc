#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

constexpr NamedFuzzTarget kTargets[] = {
    {"tfrecord", FrameTarget, "tfrecord"},
    {"recordio", FrameTarget, "recordio"},
    {"ofrecord", FrameTarget, "ofrecord"},
    {"tar", FrameTarget, "tar"},
    {"lines", FrameTarget, "lines"},
    {"jsonl", FrameTarget, "jsonl"},
    {"csv", FrameTarget, "csv:header"},
    {"csv_columns", FrameTarget, "csv:header=69642c61"},
    {"npy", FrameTarget, "npy"},
    {"tokens", FrameTarget, "tokens:block=5"},
    {"rows", FrameTarget, "rows:5,header=3,stride=7"},
    {"mds", FrameTarget, "mds"},
    {"litdata", LitDataTarget, ""},
    {"arrayrecord", FrameTarget, "arrayrecord"},
    {"megatron", MegatronTarget, ""},
    {"detect", DetectTarget, ""},
    {"gzip", DecompressTarget, "gzip"},
    {"zlib", DecompressTarget, "zlib"},
    {"zstd", DecompressTarget, "zstd"},
    {"bzip2", DecompressTarget, "bzip2"},
    {"xz", DecompressTarget, "xz"},
    {"lz4", DecompressTarget, "lz4"},
    {"brotli", DecompressTarget, "brotli"},
    {"snappy", DecompressTarget, "snappy"},
    {"snappy_stream", SnappyTarget, "stream"},
    {"snappy_official", SnappyTarget, "official"},
    {"parse_raw", ParseTarget, "raw"},
    {"parse_rows", ParseTarget, "rows: f4[3] i8 u1"},
    {"parse_example", ParseTarget, "example: image=u1[] label=i8 small=i4[]? x=f4[3]?0 v=f4[,2]?"},
    {"parse_sequence", ParseTarget, "sequence: id=i8 w=f4[]? | tokens=i8[] x=f4[,2]? s=u1[,3]?"},
    {"parse_nested", ParseTarget,
     "sequence: id=i8 w=f4[]? tags=u1[,]? | tokens=i8[,] x=f4[,,2]? s=u1[,]?"},
    {"parse_ofrecord", ParseTarget,
     "ofrecord: encoded=u1[] class/label=i4 x=f4[3]~?0 d=f8[]? n=i8[]?"},
    {"parse_csv", ParseTarget, "csv: -columns=any id=i8 x=f8[2]?-1 note=u1[] f=f4 n=i4?0 b=b1?1"},
    {"parse_lod", ParseTarget, "lod: image=f4[,2] words=i8[,1]/1 nested=i2[]/2 label=u1[2]"},
    {"parse_instance", ParseTarget,
     "instance: image=f4[,2] words=i8[,1]/1 nested=i2[]/2 label=u4[2] ok=b1"},
    {"parse_tokens", ParseTarget, "tokens: u2[] as i8"},
    {"parse_tar", ParseTarget,
     "tar: jpg;png=u1[]? cls=i8?-1 npy=f4[,2]? json/a/b=i8?0 json/t=u1[,]?"},
    {"parse_mds", ParseTarget,
     "mds: id:int b:bytes n:ndarray=f4[,2] t:ndarray:uint16=u2[] -s:str f:ndarray:int16:2,2"},
    {"parse_litdata", ParseTarget,
     "litdata: id:int b:bytes t:tensor=f4[,2] n:numpy=u1[] v:no_header_tensor:18 ok:bool -s:str"},
    {"parse_jsonl", ParseTarget, "jsonl: id=i8 text=u1[] v=f4[]? w=f8[2,2]?0 ok=b1?0 n=i4[,2]?"},
    {"parse_json_paths", ParseTarget,
     "jsonl: /a/b=i8?0 /a/t=u1[,]? /a/0=u1[]? /x~1y/1/z=f4?0 t=u1[,]?"},
    {"infer_example", InferTarget, "example"},
    {"infer_jsonl", InferTarget, "jsonl"},
    {"infer_tar", InferTarget, "tar"},
    {"infer_csv", InferTarget, "csv"},
    {"arrow", ArrowTarget, ""},
    {"manifest", ManifestTarget, ""},
    {"subset", SubsetTarget, ""},
    {"metrics_address", MetricsAddressTarget, ""},
    {"remote_address", RemoteAddressTarget, ""},
    {"remote_head", RemoteHeadTarget, ""},
    {"remote_listing", RemoteListingTarget, ""},
    {"credentials", CredentialsTarget, ""},
    {"piece", PieceTarget, ""},
#ifdef RINGFEED_FUZZ_HTTP
    {"http", HttpTarget, ""},
#endif
#ifdef RINGFEED_FUZZ_JPEG
    {"jpeg", JpegTarget, ""},
#endif
};

}  // namespace

std::span<const NamedFuzzTarget> FuzzTargets() { return kTargets; }

const NamedFuzzTarget* FindFuzzTarget(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTargets), std::end(kTargets),
                   [&](const NamedFuzzTarget& target) { return target.name == name; });
  return found == std::end(kTargets) ? nullptr : found;
}

void FuzzFailure(std::string_view property, const std::string& seen) {
  std::fprintf(stderr, "The property does not hold: %.*s. %s\n", static_cast<int>(property.size()),
               property.data(), seen.c_str());
  std::abort();
}

}  // namespace ringfeed
