// Requests and heads of answers that ringfeed sends and reads itself; all others are libcurl's.

#include "io/remote/direct_request.h"

#include <gtest/gtest.h>

#include <string>

namespace ringfeed {
namespace {

TEST(WriteDirectRequestTest, AGetIsWrittenAsLibcurlWritesIt) {
  DirectRequest direct;
  ASSERT_TRUE(WriteDirectRequest(
      {.url = "http://host:81/a%20b/../c?x=1&y=2", .headers = {{"Range", "bytes=0-9"}}}, &direct));
  EXPECT_EQ(direct.origin, "http://host:81");
  EXPECT_FALSE(direct.is_tls);
  EXPECT_EQ(direct.text,
            "GET /a%20b/../c?x=1&y=2 HTTP/1.1\r\nHost: host:81\r\nRange: bytes=0-9\r\n"
            "User-Agent: ringfeed\r\nAccept: */*\r\n\r\n");
  ASSERT_TRUE(WriteDirectRequest({.url = "https://[::1]:443"}, &direct));
  EXPECT_TRUE(direct.is_tls);
  EXPECT_EQ(direct.text,
            "GET / HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: ringfeed\r\nAccept: */*\r\n\r\n");
  ASSERT_TRUE(WriteDirectRequest({.url = "http://host:443/"}, &direct));
  EXPECT_NE(direct.text.find("Host: host:443\r\n"), std::string::npos);
}

TEST(WriteDirectRequestTest, EverythingElseIsLeftToLibcurl) {
  const HttpRequest others[] = {
      {.method = "HEAD", .url = "http://h/"},
      {.url = "http://h/", .body = "x"},
      {.url = "ftp://h/"},
      {.url = "h/a"},
      {.url = "http://"},
      {.url = "http://user:word@h/"},
      {.url = "http://h/a b"},
      {.url = "http://h/a\r\nx: y"},
      {.url = "http://h/a#b"},
      {.url = "http://h/a?"},
      {.url = "http://h/\xc3\xa4"},
      {.url = "http://h/", .headers = {{"a", "b\r\nc: d"}}},
      {.url = "http://h/", .headers = {{"a b", "c"}}},
      {.url = "http://h/", .headers = {{"", "c"}}},
      {.url = "http://h/", .headers = {{"HOST", "other"}}},
  };
  DirectRequest direct;
  for (const HttpRequest& request : others) {
    EXPECT_FALSE(WriteDirectRequest(request, &direct)) << request.method << " " << request.url;
  }
}

TEST(ReadDirectHeadTest, AnOrdinaryHeadIsRead) {
  HttpResponse head{.status = 1, .headers = {{"of", "before"}}, .body = "old"};
  ASSERT_TRUE(ReadDirectHead(
      "HTTP/1.1 206 Partial Content\r\nContent-Length:10\r\nContent-Range: bytes 0-9/100 \r\n"
      "X-Empty:\r\nSet-Cookie: a\r\nset-cookie: b\r\n\r\n",
      &head));
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.Header("content-length"), "10");
  EXPECT_EQ(head.Header("content-range"), "bytes 0-9/100");
  EXPECT_EQ(head.Header("x-empty"), "");
  EXPECT_EQ(head.Header("of"), "");
  EXPECT_EQ(head.headers.size(), 5u);
  EXPECT_EQ(head.body, "");
  EXPECT_TRUE(ReadDirectHead("HTTP/1.1 503\r\n\r\n", &head));
  EXPECT_EQ(head.status, 503);
}

TEST(ReadDirectHeadTest, AnUnusualHeadIsLeftToLibcurl) {
  HttpResponse head;
  for (const char* text :
       {"", "\r\n\r\n", "HTTP/1.1 206 Partial\r\n", "HTTP/1.0 206 Partial\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2060\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/2 206\r\n\r\n", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 206\r\na: b\r\n c\r\n\r\n",
        "HTTP/1.1 206\r\na : b\r\n\r\n", "HTTP/1.1 206\r\na\r\n\r\n", "HTTP/1.1 206\r\n: b\r\n\r\n",
        "HTTP/1.1 206\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n",
        "HTTP/1.1 206\r\na: b\rc\r\n\r\n", "HTTP/1.1 206\r\na: b\nc: d\r\n\r\n",
        "HTTP/1.1 206\r\na: b\r\n\r\nbody"}) {
    EXPECT_FALSE(ReadDirectHead(text, &head)) << text;
  }
}

TEST(ReadDirectHeadTest, NoPartOfAHeadIsAHead) {
  const std::string text =
      "HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nETag: \"a\"\r\n\r\n";
  HttpResponse head;
  ASSERT_TRUE(ReadDirectHead(text, &head));
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ReadDirectHead(text.substr(0, size), &head)) << size;
  }
}

}  // namespace
}  // namespace ringfeed
