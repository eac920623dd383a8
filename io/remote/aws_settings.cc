#include "io/remote/aws_settings.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/small_text.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostFileBytes = 1 << 20;

constexpr const char* kVariables[] = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "RINGFEED_S3_ANONYMOUS",
};

std::string ValueOf(const NamedValues& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

/// What stands before a comment, which begins with '#' or ';' at the start or behind a space.
std::string_view WithoutComment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if ((line[i] == '#' || line[i] == ';') &&
        (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return line.substr(0, i);
    }
  }
  return line;
}

std::string SectionName(std::string_view text) {
  std::string name;
  for (const char c : Trimmed(text)) {
    if (c == '"' || c == '\'') continue;
    const bool space = c == ' ' || c == '\t';
    if (!space || !name.ends_with(' ')) name += space ? ' ' : c;
  }
  return name;
}

Status ReadSections(const std::string& path, std::map<std::string, NamedValues>* sections) {
  std::string text;
  Status status = ReadSecretFile(path, "file of AWS's settings", &text);
  if (status.code() == StatusCode::kNotFound) return {};
  if (status.ok()) status = ParseAwsFile(text, sections);
  return status.ok() ? status : Status(status.code(), path + ": " + status.message());
}

}  // namespace

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::string LowerCase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

std::string HomeFolder() { return EnvironmentText("HOME"); }

Status ReadSecretFile(const std::string& path, const std::string& what, std::string* text) {
  try {
    *text = ReadSmallText(path, what, kMostFileBytes);
  } catch (const Error& error) {
    return error.status();
  }
  if (text->size() <= kMostFileBytes) return {};
  return {StatusCode::kInvalidArgument, "the " + what + " " + path + " is longer than 1 MiB"};
}

Status ParseAwsFile(std::string_view text, std::map<std::string, NamedValues>* sections) {
  NamedValues* section = nullptr;
  std::string outer;                  // the key whose value is nested in the lines that follow
  std::optional<std::size_t> indent;  // of the section's keys; what stands further in is nested
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = Trimmed(WithoutComment(whole));
    if (line.empty()) continue;
    const std::size_t its_indent = whole.find_first_not_of(" \t");
    const bool nested = indent && its_indent > *indent;
    const std::size_t equals = line.find('=');
    if (!nested && line.front() == '[') {
      if (line.back() != ']') {
        return {StatusCode::kInvalidArgument,
                "line " + std::to_string(number) + " begins a section and has no ']'"};
      }
      section = &(*sections)[SectionName(line.substr(1, line.size() - 2))];
      indent.reset();
      continue;
    }
    const bool has_name = equals != std::string_view::npos && equals != 0;
    if (nested && (outer.empty() || !has_name))
      continue;  // goes on with a value that is none of ours
    if (section == nullptr || !has_name) {
      return {StatusCode::kInvalidArgument,
              "line " + std::to_string(number) + " is neither [SECTION] nor NAME = VALUE in one"};
    }
    const std::string name = LowerCase(std::string(Trimmed(line.substr(0, equals))));
    const std::string_view value = Trimmed(line.substr(equals + 1));
    if (!nested) {
      outer = value.empty() ? name : "";
      indent = its_indent;
    }
    (*section)[nested ? outer + "." + name : name] = std::string(value);
  }
  return {};
}

std::string AwsSettings::Variable(const std::string& name) const {
  return ValueOf(variables, name);
}

std::string AwsSettings::ProfileValue(const std::string& name) const {
  return ValueOf(profile, name);
}

std::string AwsSettings::Region() const {
  for (const char* const name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (std::string region = Variable(name); !region.empty()) return region;
  }
  return ProfileValue("region");
}

std::string AwsSettings::Endpoint(const std::string& service, std::string* from) const {
  const std::string lower = LowerCase(service);
  const std::string file = "endpoint_url of the profile " + profile_name;
  const std::pair<std::string, std::string> places[] = {
      {Variable("AWS_ENDPOINT_URL_" + service), "AWS_ENDPOINT_URL_" + service},
      {Variable("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL"},
      {ProfileValue(lower + ".endpoint_url"), file},
      {ProfileValue("endpoint_url"), file}};
  for (const auto& [value, place] : places) {
    if (value.empty()) continue;
    *from = place;
    return value;
  }
  return {};
}

AwsSettings ReadAwsEnvironment() {
  AwsSettings settings;
  for (const char* const name : kVariables) {
    if (std::string value = EnvironmentText(name); !value.empty()) {
      settings.variables[name] = std::move(value);
    }
  }
  const std::string home = HomeFolder();
  for (const auto& [name, file] : {std::pair("AWS_CONFIG_FILE", "/.aws/config"),
                                   std::pair("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials")}) {
    std::string& path = settings.variables[name];
    if (path.empty() && !home.empty()) path = home + file;
    if (path.starts_with("~/")) path = home + path.substr(1);
    settings.files += (settings.files.empty() ? "" : ", ") + path;
  }
  settings.profile_name = settings.Variable("AWS_PROFILE");
  if (settings.profile_name.empty()) settings.profile_name = "default";
  return settings;
}

Status ReadAwsProfile(AwsSettings* settings) {
  std::map<std::string, NamedValues> config;
  std::map<std::string, NamedValues> credentials;
  const std::string& name = settings->profile_name;
  Status status = ReadSections(settings->Variable("AWS_CONFIG_FILE"), &config);
  if (status.ok()) {
    status = ReadSections(settings->Variable("AWS_SHARED_CREDENTIALS_FILE"), &credentials);
  }
  if (!status.ok()) return status;
  bool found = false;
  NamedValues values;
  const auto add = [&](const std::map<std::string, NamedValues>& file, const std::string& section) {
    const auto its = file.find(section);
    if (its == file.end()) return;
    found = true;
    for (const auto& [key, value] : its->second) values[key] = value;
  };
  if (name == "default") add(config, name);
  add(config, "profile " + name);
  add(credentials, name);
  if (!found && !settings->Variable("AWS_PROFILE").empty()) {
    return {StatusCode::kInvalidArgument, "AWS_PROFILE is " + ShownText(name) +
                                              ", and no file has that profile: " + settings->files +
                                              "; set it right, or unset it"};
  }
  if (values.contains("services")) {
    const auto services = config.find("services " + values["services"]);
    if (services != config.end()) values.insert(services->second.begin(), services->second.end());
  }
  settings->profile = std::move(values);
  return {};
}

}  // namespace ringfeed
