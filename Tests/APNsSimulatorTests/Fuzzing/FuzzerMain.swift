import Glibc

/// libFuzzer's own loop, for one target. `deploy/fuzz` builds and runs it; an ordinary build leaves this file out (Package.swift).
@main
struct SimulatorFuzz {
    nonisolated(unsafe) fileprivate static var target = FuzzTarget.payload

    static func main() {
        // By environment, because libFuzzer starts itself anew with arguments of its own.
        guard let name = getenv("FUZZ_TARGET"), let target = FuzzTarget(rawValue: String(cString: name)) else {
            print("FUZZ_TARGET is one of \(FuzzTarget.allCases.map(\.rawValue).joined(separator: ", "))")
            exit(2)
        }
        Self.target = target
        var count = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        exit(
            runFuzzer(&count, &arguments) { bytes, count in
                SimulatorFuzz.target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
                return 0
            })
    }
}

/// compiler-rt, FuzzerInterface.h: for programs that have a `main` of their own.
@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ count: UnsafeMutablePointer<Int32>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<Int8>?>>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32
