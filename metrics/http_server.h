#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <stop_token>
#include <string>
#include <vector>

#include "metrics/address.h"
#include "metrics/http.h"
#include "metrics/own_descriptor.h"
#include "ringfeed/status.h"

struct pollfd;

namespace ringfeed {

/// What a client can make the process spend.
struct HttpLimits {
  std::size_t connections = 16;   ///< with one more the oldest is let go of
  std::size_t head_bytes = 8192;  ///< of a request
  std::chrono::milliseconds request{
      5000};  ///< from the connection to the end of the request's head
  std::chrono::milliseconds answer{10000};   ///< to take the answer
  std::chrono::milliseconds farewell{1000};  ///< to say goodbye behind it
};

/// A socket that listens there, for its user alone where it is a path. What a process that ended
/// left at a path is taken away first, and nothing else. Fails where another one listens: nobody's
/// socket is ever taken over. *address gets the port that was free.
Status ListenAt(MetricsAddress* address, OwnDescriptor* listener);

/// Answers one request for each connection. One thread runs it; no client makes it wait for that
/// one alone, hold more than the limits say, or keep others out.
class HttpServer {
 public:
  using Answer = std::function<HttpAnswer(const HttpRequest& request)>;

  /// `local_only`: requests that were made by another name than this machine's are refused.
  HttpServer(OwnDescriptor listener, bool local_only, const HttpLimits& limits, Answer answer);

  /// Until a stop is requested and `waker`, an eventfd, can be read.
  void Run(const std::stop_token& stop, int waker);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage : std::uint8_t { kRequest, kAnswer, kFarewell };
  struct Connection {
    OwnDescriptor socket;
    Stage stage = Stage::kRequest;
    Clock::time_point until;
    std::string text;      ///< what came, then what is to be sent
    std::size_t sent = 0;  ///< of it
  };

  void Accept();
  /// False: it is over.
  bool GoOn(Connection* connection);
  bool Receive(Connection* connection);
  bool Send(Connection* connection);
  bool DrainRest(Connection* connection) const;
  bool BeginAnswer(Connection* connection, const HttpAnswer& answer, bool with_body);
  HttpAnswer AnswerTo(const HttpRequest& request) const;
  int MillisecondsToWait() const;
  std::vector<pollfd> WhatToPoll(int waker) const;

  OwnDescriptor listener_;
  const bool local_only_;
  const HttpLimits limits_;
  const Answer answer_;
  std::list<Connection> connections_;  ///< the oldest first
  Clock::time_point accepts_from_;     ///< later than now: the system had no descriptors
};

}  // namespace ringfeed
