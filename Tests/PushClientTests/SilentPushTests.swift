import TestDevice
import Testing

@testable import PushClient

@Suite struct SilentPushTests {
    struct Fault: Error {}

    @Test func theAnswerIsTheWorks() async {
        let work = SilentPushWork(clock: TestClock())
        #expect(await work.run { .newData } == .newData)
        #expect(await work.run { .noData } == .noData)
        #expect(await work.run { throw Fault() } == .failed)
    }

    @Test func workThatNeverEndsIsAnsweredInTime() async {
        let clock = TestClock()
        let work = SilentPushWork(clock: clock)
        async let answer = work.run {
            // It ignores its cancellation.
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            return .newData
        }
        await clock.sleepers(1)
        #expect(clock.remaining == [.seconds(25)])
        clock.advance(by: .seconds(3_600))
        #expect(await answer == .failed)
    }

    @Test func workThatComesTooLateIsCancelled() async {
        let clock = TestClock()
        let ended = AsyncStream<Bool>.makeStream()
        async let answer = SilentPushWork(clock: clock).run {
            try? await clock.sleep(for: .seconds(7_200))
            ended.continuation.yield(Task.isCancelled)
            return .newData
        }
        await clock.sleepers(2)
        clock.advance(by: .seconds(25))
        #expect(await answer == .failed)
        for await wasCancelled in ended.stream {
            #expect(wasCancelled)
            break
        }
    }
}
