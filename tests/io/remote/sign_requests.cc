// Signs what stands on stdin: lines of METHOD, URL, body, token, region, seconds since 1970 and a
// Range, each in hexadecimal digits and with a tab between them. Prints a signature for each.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "io/remote/credentials.h"
#include "io/remote/signing.h"
#include "io/remote/urls.h"

namespace {

std::string FromHex(const std::string& digits) {
  std::string text;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    text += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return text;
}

}  // namespace

int main() {
  using namespace ringfeed;
  RequestSigner signer("s3");
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream parts(line);
    for (std::string word; std::getline(parts, word, '\t');) words.push_back(FromHex(word));
    words.resize(9);
    HttpRequest request;
    request.method = words[0];
    request.url = words[1] + "/" + EncodedText(words[2], false);
    std::vector<std::pair<std::string, std::string>> query;
    if (!words[3].empty()) query = {{"prefix", words[3]}, {"list-type", "2"}, {"marker", words[2]}};
    if (!query.empty()) request.url += "?" + EncodedQuery(query);
    request.body = words[4];
    if (!words[8].empty()) SetHeader(&request, "Range", words[8]);
    signer.Sign({"AKID", "secret", words[5], {}}, words[6],
                std::chrono::system_clock::from_time_t(std::stol(words[7])), &request);
    std::cout << request.headers.back().second << "\n";
  }
}
