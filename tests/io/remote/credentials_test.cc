#include "io/remote/credentials.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/io/remote/environment.h"

namespace ringfeed {
namespace {

constexpr const char* kKeysJson =
    R"({"Code":"Success","AccessKeyId":"AK","SecretAccessKey":"HUSH","Token":"TOKEN",)"
    R"("Expiration":"2099-01-01T00:00:00.5Z"})";

/// Answers by what a URL begins with, and keeps what it was asked.
class Servers {
 public:
  explicit Servers(std::vector<std::pair<std::string, HttpResponse>> answers)
      : answers_(std::move(answers)) {}
  HttpCall Call() {
    return [this](const HttpRequest& request, HttpResponse* response) {
      asked.push_back(request);
      for (const auto& [line, answer] : answers_) {
        if (request.method + " " + request.url != line) continue;
        *response = answer;
        return Status();
      }
      return Status(StatusCode::kDeadlineExceeded, "no server there");
    };
  }
  std::vector<HttpRequest> asked;

 private:
  const std::vector<std::pair<std::string, HttpResponse>> answers_;
};

/// "KEY HUSH TOKEN", or the failure, in which no secret may stand.
std::string Asked(const HttpCall& call) {
  Credentials credentials;
  const Status status = AskForCredentials(ReadAwsEnvironment(), call, &credentials);
  EXPECT_EQ(status.ToString().find("HUSH"), std::string::npos) << status.ToString();
  if (!status.ok()) return status.message();
  return credentials.access_key + " " + credentials.secret_key + " " + credentials.session_token;
}
std::string AskedNobody() { return Asked(Servers({}).Call()); }

TEST(CredentialsTest, OfTheEnvironmentComeFirst) {
  StoreEnvironment environment({{"AWS_ACCESS_KEY_ID", "AK"}, {"AWS_SESSION_TOKEN", "T"}});
  environment.Write(".aws/credentials",
                    "[default]\naws_access_key_id=F\naws_secret_access_key=F\n");
  EXPECT_NE(AskedNobody().find("is missing"), std::string::npos);
  environment.Set("AWS_SECRET_ACCESS_KEY", "S");
  EXPECT_EQ(AskedNobody(), "AK S T");
  environment.Set("AWS_SESSION_TOKEN", "HUSH\r\nX: y");
  EXPECT_NE(AskedNobody().find("no line"), std::string::npos);
  environment.Set("RINGFEED_S3_ANONYMOUS", "1");
  EXPECT_EQ(AskedNobody(), "  ");
}

TEST(CredentialsTest, OfAProfileAreInEitherFile) {
  StoreEnvironment environment({{"AWS_PROFILE", "two"}});
  environment.Write(
      ".aws/config",
      "# of two\n[default]\nregion = us-west-2\n[profile  two]\nregion=eu-west-1 ; here\n"
      "s3 =\n  addressing_style = path\n  other\nservices = mine\n"
      "[services mine]\ns3 =\n endpoint_url = http://127.0.0.1:1\n");
  environment.Write(".aws/credentials",
                    "[two]\r\nAWS_Access_Key_Id = AK\r\naws_secret_access_key = S=/+\r\n");
  EXPECT_EQ(AskedNobody(), "AK S=/+ ");
  AwsSettings settings = ReadAwsEnvironment();
  ASSERT_TRUE(ReadAwsProfile(&settings).ok());
  EXPECT_EQ(settings.Region(), "eu-west-1");
  EXPECT_EQ(settings.ProfileValue("s3.addressing_style"), "path");
  std::string from;
  EXPECT_EQ(settings.Endpoint("S3", &from), "http://127.0.0.1:1");
  environment.Set("AWS_ENDPOINT_URL", "http://h");
  EXPECT_EQ(ReadAwsEnvironment().Endpoint("S3", &from), "http://h");
  environment.Set("AWS_PROFILE", "three");
  EXPECT_NE(AskedNobody().find("no file has that profile"), std::string::npos);
}

TEST(CredentialsTest, OfAProfileMayBeIndented) {
  StoreEnvironment environment;
  environment.Write(".aws/config",
                    "[default]\n  aws_access_key_id = AK\n  aws_secret_access_key = S\n  s3 =\n"
                    "    addressing_style = path\n  region = r\n  [other]\n  region = q\n");
  EXPECT_EQ(AskedNobody(), "AK S ");
  AwsSettings settings = ReadAwsEnvironment();
  ASSERT_TRUE(ReadAwsProfile(&settings).ok());
  EXPECT_EQ(settings.Region() + settings.ProfileValue("s3.addressing_style"), "rpath");
}

TEST(CredentialsTest, ThatAProfileTakesFromElsewhereAreNotGuessed) {
  StoreEnvironment environment;
  environment.Write(".aws/config",
                    "[default]\nrole_arn = arn\nsource_profile = b\naws_access_key_id = AK\n");
  EXPECT_NE(AskedNobody().find("has role_arn, which ringfeed does not follow"), std::string::npos);
  environment.Write(".aws/config", "[default]\ncredential_process = HUSH\n");
  EXPECT_NE(AskedNobody().find("aws configure export-credentials"), std::string::npos);
}

TEST(CredentialsTest, OfADamagedFileNameTheLineAlone) {
  StoreEnvironment environment;
  for (const char* const text :
       {"[default]\n\nHUSH\n", "[default]\n# a\n=HUSH", "\n[other]\n[HUSH"}) {
    environment.Write(".aws/credentials", text);
    EXPECT_NE(AskedNobody().find("credentials: line 3"), std::string::npos) << AskedNobody();
  }
  environment.Write(".aws/credentials", std::string((1 << 20) + 1, '\n'));
  EXPECT_NE(AskedNobody().find("1 MiB"), std::string::npos);
}

TEST(CredentialsTest, OfAWebIdentityComeFromSts) {
  StoreEnvironment environment({{"AWS_ROLE_ARN", "arn:r"}, {"AWS_REGION", "cn-north-1"}});
  environment.Set("AWS_WEB_IDENTITY_TOKEN_FILE", environment.Write("token", "HUSH.t+\n"));
  const std::string sts = "POST https://sts.cn-north-1.amazonaws.com.cn/";
  Servers servers({{sts,
                    {200,
                     {},
                     "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
                     "<Credentials><AccessKeyId>AK</AccessKeyId><SecretAccessKey>S"
                     "</SecretAccessKey><SessionToken>T</SessionToken><Expiration>"
                     "2099-01-01T00:00:00Z</Expiration></Credentials>"
                     "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"}}});
  EXPECT_EQ(Asked(servers.Call()), "AK S T");
  EXPECT_EQ(servers.asked[0].body,
            "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Ar&RoleSessionName=ringfeed&Version="
            "2011-06-15&WebIdentityToken=HUSH.t%2B");
  Servers refuses({{sts,
                    {400,
                     {},
                     "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>HUSH"
                     "</Message></Error></ErrorResponse>"}}});
  EXPECT_EQ(Asked(refuses.Call()),
            "the web identity's role (STS): the answer is 400, ExpiredTokenException");
}

TEST(CredentialsTest, OfAContainerNeedItsToken) {
  StoreEnvironment environment({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}});
  environment.Set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", environment.Write("token", "HUSH\n"));
  Servers servers({{"GET http://169.254.170.2/v2/x", {200, {}, kKeysJson}}});
  EXPECT_EQ(Asked(servers.Call()), "AK HUSH TOKEN");
  EXPECT_EQ(servers.asked[0].headers[0].second, "HUSH");
  Servers damaged({{"GET http://169.254.170.2/v2/x", {200, {}, "{\"SecretAccessKey\":\"HUSH"}}});
  EXPECT_NE(Asked(damaged.Call()).find("no JSON"), std::string::npos);
  Servers big({{"GET http://169.254.170.2/v2/x", {200, {}, std::string(65'537, ' ')}}});
  EXPECT_NE(Asked(big.Call()).find("64 KiB"), std::string::npos);
  for (const char* const url : {"http://evil.com/x", "http://127.0.0.1.evil.com/",
                                "ftp://127.0.0.1/", "http://127.0.0.1:80@evil.com/"}) {
    const StoreEnvironment other({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}});
    EXPECT_NE(AskedNobody().find("neither https"), std::string::npos) << url;
  }
}

TEST(CredentialsTest, OfAnInstanceAreAskedForWithAToken) {
  const StoreEnvironment environment({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://meta/"}});
  const std::string roles = "GET http://meta/latest/meta-data/iam/security-credentials/";
  const std::pair<std::string, HttpResponse> token = {"PUT http://meta/latest/api/token",
                                                      {200, {}, "HUSH"}};
  Servers servers(
      {token, {roles, {200, {}, "a role\n"}}, {roles + "a%20role", {200, {}, kKeysJson}}});
  EXPECT_EQ(Asked(servers.Call()), "AK HUSH TOKEN");
  EXPECT_EQ(servers.asked[2].headers[0],
            std::pair(std::string("X-aws-ec2-metadata-token"), std::string("HUSH")));
  EXPECT_NE(Asked(Servers({token, {roles, {404, {}, ""}}}).Call()).find("has no role"),
            std::string::npos);
  EXPECT_NE(Asked(Servers({{token.first, {503, {}, ""}}}).Call()).find("is 503"),
            std::string::npos);
}

TEST(CredentialsTest, AreNowhereAndTheMessageSaysWhereItLooked) {
  StoreEnvironment environment;
  const std::string message = AskedNobody();
  for (const char* const place : {"AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", ".aws/config",
                                  "_FULL_URI", "no server there", "RINGFEED_S3_ANONYMOUS=1"}) {
    EXPECT_NE(message.find(place), std::string::npos) << message;
  }
  environment.Set("AWS_EC2_METADATA_DISABLED", "True");
  EXPECT_NE(AskedNobody().find("DISABLED is set"), std::string::npos);
}

/// Credentials of an hour, numbered, at a time that the test sets.
struct Clock {
  KeptCredentials::Ask Ask() {
    return [this](Credentials* credentials) {
      const int number = ++asked;
      if (fails) return Status(StatusCode::kIoError, "down");
      *credentials = {"AK", "S", "T" + std::to_string(same_token ? 1 : number),
                      now + std::chrono::hours(1)};
      return Status();
    };
  }
  std::string Get(KeptCredentials* kept) {
    std::shared_ptr<const Credentials> credentials;
    const Status status = kept->Get(&credentials);
    return status.ok() ? credentials->session_token : status.message();
  }
  void Pass(std::chrono::seconds time) { now += time; }

  SystemTime now = std::chrono::system_clock::from_time_t(1'800'000'000);
  std::atomic<int> asked{0};
  bool fails = false;
  bool same_token = false;
};

TEST(KeptCredentialsTest, AreAskedForAnewBeforeTheyExpire) {
  Clock clock;
  KeptCredentials kept(clock.Ask(), [&] { return clock.now; });
  EXPECT_EQ(clock.Get(&kept), "T1");
  clock.Pass(std::chrono::minutes(54));
  EXPECT_EQ(clock.Get(&kept), "T1");
  clock.Pass(std::chrono::minutes(2));
  clock.fails = true;  // the old ones do for some minutes, and it is asked every 30 seconds
  EXPECT_EQ(clock.Get(&kept), "T1");
  EXPECT_EQ(clock.Get(&kept), "T1");
  EXPECT_EQ(clock.asked, 2);
  clock.Pass(std::chrono::minutes(5));
  EXPECT_EQ(clock.Get(&kept), "down");
  clock.fails = false;
  EXPECT_EQ(clock.Get(&kept), "T4");
}

TEST(KeptCredentialsTest, ThatAServerRefusesAreAskedForOnce) {
  Clock clock;
  KeptCredentials kept(clock.Ask(), [&] { return clock.now; });
  EXPECT_EQ(clock.Get(&kept), "T1");
  EXPECT_TRUE(kept.Refuse());
  EXPECT_TRUE(kept.Refuse());  // another answer
  EXPECT_EQ(clock.Get(&kept), "T2");
  EXPECT_TRUE(kept.Refuse());  // a late answer to a request with T1
  EXPECT_EQ(clock.Get(&kept), "T2");
  clock.Pass(std::chrono::minutes(2));
  clock.same_token = true;
  EXPECT_TRUE(kept.Refuse());
  EXPECT_EQ(clock.Get(&kept), "T1");
  clock.Pass(std::chrono::minutes(2));
  EXPECT_TRUE(kept.Refuse());
  EXPECT_EQ(clock.Get(&kept), "T1");
  EXPECT_FALSE(kept.Refuse()) << "the same ones were given again";
}

TEST(KeptCredentialsTest, AreAskedForByOneThreadWhileOthersUseTheOldOnes) {
  Clock clock;
  std::promise<void> asking;
  std::promise<void> go_on;
  const KeptCredentials::Ask ask = clock.Ask();
  KeptCredentials kept(
      [&](Credentials* credentials) {
        if (clock.asked == 1) {
          asking.set_value();
          go_on.get_future().wait();
        }
        return ask(credentials);
      },
      [&] { return clock.now; });
  EXPECT_EQ(clock.Get(&kept), "T1");
  clock.Pass(std::chrono::minutes(56));
  std::thread refresher([&] { EXPECT_EQ(clock.Get(&kept), "T2"); });
  asking.get_future().wait();
  EXPECT_EQ(clock.Get(&kept), "T1");
  go_on.set_value();
  refresher.join();
  EXPECT_EQ(clock.Get(&kept), "T2");
}

TEST(KeptCredentialsTest, FailForAllWhoWait) {
  Clock clock;
  clock.fails = true;
  KeptCredentials kept(clock.Ask(), [&] { return clock.now; });
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n) threads.emplace_back([&] { EXPECT_EQ(clock.Get(&kept), "down"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(clock.asked, 1);
}

}  // namespace
}  // namespace ringfeed
