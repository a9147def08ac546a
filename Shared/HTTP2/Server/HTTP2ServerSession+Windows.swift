internal import CNGHTTP2

extension HTTP2ServerSession {
    /// Announces to the peer how much of a body it may send before more is granted (RFC 9113 section 6.9.2): 0 stops every body that has
    /// not begun. When it is raised again, waiting streams go on.
    package func updateSettings(initialWindowSize: Int) throws(HTTP2Error) {
        announced.announce(announced.latest)
        try wire.submitSettings([nghttp2_settings_entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, initialWindowSize)])
    }
}
