import Testing

@testable import HTTP2

@Suite("HTTP/2: a session's memory", .timeLimit(.minutes(5)))
struct MemoryPoolTests {
    /// A block in use, filled with one byte from end to end.
    private struct Block {
        var start: UnsafeMutableRawPointer
        var size: Int
        var mark: UInt8

        func fill() { start.initializeMemory(as: UInt8.self, repeating: mark, count: size) }

        func isIntact(first count: Int) -> Bool {
            UnsafeRawBufferPointer(start: start, count: min(size, count)).allSatisfy { $0 == mark }
        }
    }

    @Test func whatIsBeyondTheLimitIsRefusedAndGivenBackIsThereAgain() throws {
        let pool = MemoryPool(limit: 100_000)
        #expect(pool.allocate(100_000) == nil, "with its header it is more")
        let large = try got(pool.allocate(90_000))
        #expect(pool.allocate(64) == nil, "a slab has no room beside it")
        pool.release(large)
        let small = try got(pool.allocate(64))
        pool.release(small)
    }

    @Test func aSessionWithoutMemoryRefusesRequestsAndBlamesNobodyElse() throws {
        let client = try HTTP2ClientSession(initialPeerStreamLimit: 4096, memoryLimit: 400_000)
        let error = #expect(throws: HTTP2Error.self) {
            for _ in 0..<4096 { _ = try client.submit(request("/"), body: [1]) }
        }
        guard case .library? = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(error?.isPeersFault == false)
    }

    private func got(_ block: UnsafeMutableRawPointer?) throws -> UnsafeMutableRawPointer { try #require(block) }

    @Test func blocksNeverOverlapWhateverTheirOrder() throws {
        let pool = MemoryPool()
        var generator = SplitMix(state: 3)
        var blocks: [Block] = []
        for step in 0..<20_000 {
            let size = [1, 40, 64, 65, 700, 2048, 2049, 20_000][Int(generator.next() % 8)] + Int(generator.next() % 64)
            let mark = UInt8(truncatingIfNeeded: step)
            switch generator.next() % 5 {
            case 0, 1:
                let block = Block(start: try got(pool.allocate(size)), size: size, mark: mark)
                #expect(Int(bitPattern: block.start) % 16 == 0)
                block.fill()
                blocks.append(block)
            case 2 where !blocks.isEmpty:
                let index = Int(generator.next() % UInt64(blocks.count))
                let old = blocks[index]
                blocks[index].start = try got(pool.reallocate(old.start, size))
                blocks[index].size = size
                #expect(blocks[index].isIntact(first: old.size))
                blocks[index].fill()
            case _ where !blocks.isEmpty:
                let block = blocks.remove(at: Int(generator.next() % UInt64(blocks.count)))
                #expect(block.isIntact(first: .max))
                pool.release(block.start)
            default: break
            }
        }
        for block in blocks {
            #expect(block.isIntact(first: .max))
            pool.release(block.start)
        }
    }

    @Test func zeroedBlocksAreZeroAlsoWhenUsedBefore() throws {
        let pool = MemoryPool()
        for size in [48, 1000, 5000] {
            let used = Block(start: try got(pool.allocate(size)), size: size, mark: 0xff)
            used.fill()
            pool.release(used.start)
            let zeroed = Block(start: try got(pool.allocateZeroed(size / 8, 8)), size: size / 8 * 8, mark: 0)
            #expect(zeroed.isIntact(first: .max))
            pool.release(zeroed.start)
        }
    }

    @Test func whatCannotBeIsRefused() throws {
        let pool = MemoryPool()
        let impossible = [pool.allocateZeroed(.max, 2), pool.allocate(.max), pool.allocate(-1)]
        #expect(impossible == [nil, nil, nil])
        pool.release(nil)
        let fresh = try got(pool.reallocate(nil, 10))
        pool.release(fresh)
        let none = try got(pool.allocate(0))
        pool.release(none)
    }

    @Test func whatIsFreedIsUsedAgain() throws {
        let pool = MemoryPool()
        let first = try got(pool.allocate(100))
        pool.release(first)
        let second = pool.allocate(128)
        #expect(second == first)
    }
}
