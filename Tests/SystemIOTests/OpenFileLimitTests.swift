import Glibc
import SystemIO
import Testing

@Suite("The limit of open files")
struct OpenFileLimitTests {
    @Test("The soft limit is raised to the hard one") func raised() throws {
        var limit = rlimit()
        try #require(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
        let hard = limit.rlim_max
        limit.rlim_cur = hard - 1
        try #require(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
        #expect(OpenFileLimit.current == hard - 1)
        OpenFileLimit.raise()
        #expect(OpenFileLimit.current == hard)
    }
}
