import Glibc

/// How many descriptors the process may have open (getrlimit(2), RLIMIT_NOFILE).
package enum OpenFileLimit {
    /// Raises the soft limit to the hard one. The soft one is 1024 on many systems, for programs that use select(2), which ours do not.
    ///
    /// Does nothing if the system refuses: then the limit stays as it is.
    package static func raise() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// The soft limit; nil if it cannot be read.
    package static var current: UInt? {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? limit.rlim_cur : nil
    }
}
