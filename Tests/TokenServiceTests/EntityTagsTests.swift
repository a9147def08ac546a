import Testing

@testable import TokenServiceKit

@Suite("Entity tags in a condition (RFC 9110 section 13.1)")
struct EntityTagsTests {
    @Test(
        "A condition names a tag by weak comparison",
        arguments: [
            ("*", true), (#""a""#, true), (#"W/"a""#, true), ("\"b\",\t \"a\" ", true), (#""b", W/"c""#, false), ("a", false), ("", false),
        ])
    func weakComparison(field: String, isNamed: Bool) {
        #expect(EntityTags(field).nameWeakly(#""a""#) == isNamed)
    }
}
