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
        let work = SilentPushWork(budget: .seconds(25), clock: clock)
        async let answer = work.run {
            // It ignores its cancellation.
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            return .newData
        }
        await clock.sleepers(1)
        clock.advance(by: .seconds(25))
        #expect(await answer == .failed)
    }
}
