#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

using NamedValues = std::map<std::string, std::string>;

/// What the environment and AWS's files say, as the AWS SDKs read them.
struct AwsSettings {
  NamedValues variables;  ///< of the environment, without those that are empty
  NamedValues profile;    ///< the profile's values; "s3.addressing_style" for what is nested
  std::string profile_name;
  std::string files;  ///< the files that were looked for, for messages

  std::string Variable(const std::string& name) const;
  std::string ProfileValue(const std::string& name) const;
  /// The region: AWS_REGION, AWS_DEFAULT_REGION, the profile's; "" if none is set.
  std::string Region() const;
  /// The endpoint that is set for a service ("S3", "STS"), or ""; `from` is what set it.
  std::string Endpoint(const std::string& service, std::string* from) const;
};

/// Reads the environment. To be called while nobody changes it.
AwsSettings ReadAwsEnvironment();
/// Reads the profile from the config and the credentials file anew; a file that is not there has
/// nothing. Blocks. kInvalidArgument if a file is not of its form or AWS_PROFILE is in none.
Status ReadAwsProfile(AwsSettings* settings);

/// Reads the sections of such a file. A message names the line, never what is in it.
Status ParseAwsFile(std::string_view text, std::map<std::string, NamedValues>* sections);

/// A file of at most 1 MiB, of which messages tell nothing but its name. kNotFound if it is not
/// there. Blocks.
Status ReadSecretFile(const std::string& path, const std::string& what, std::string* text);
/// The folder of the user, or "".
std::string HomeFolder();

/// Without spaces and ends of lines at both ends.
std::string_view Trimmed(std::string_view text);
/// With the letters of ASCII in lower case.
std::string LowerCase(std::string text);

}  // namespace ringfeed
