extension PushAPI {
    /// Deliveries, read a page at a time while the caller takes them. Throws ``PushAPIError``.
    public struct Deliveries: AsyncSequence, Sendable {
        public typealias Element = Delivery

        let api: PushAPI
        let path: String
        let filters: [(String, String?)]

        public func makeAsyncIterator() -> Iterator { Iterator(list: self) }

        public struct Iterator: AsyncIteratorProtocol {
            private let list: Deliveries
            private var page: ArraySlice<Delivery> = []
            private var cursor: String?
            private var isLastPage = false

            init(list: Deliveries) { self.list = list }

            public mutating func next() async throws -> Delivery? {
                // A page can be empty and not the last.
                while page.isEmpty, !isLastPage {
                    let query = list.filters + [("limit", "1000"), ("cursor", cursor)]
                    let answer: Page = try await list.api.call(.init(.get, list.path, query: query)).decode()
                    page = answer.deliveries[...]
                    cursor = answer.nextCursor
                    isLastPage = cursor == nil
                }
                return page.popFirst()
            }
        }

        private struct Page: Decodable {
            let deliveries: [Delivery]
            let nextCursor: String?
        }
    }
}
