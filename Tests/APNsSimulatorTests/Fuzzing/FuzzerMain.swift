import Glibc

/// The target that this process fuzzes. It comes from the environment, because libFuzzer, whose `main` this program has, starts itself
/// again with its own arguments.
private let target: FuzzTarget = {
    guard let name = getenv("FUZZ_TARGET"), let target = FuzzTarget(rawValue: String(cString: name)) else {
        print("FUZZ_TARGET is one of \(FuzzTarget.allCases.map(\.rawValue).joined(separator: ", "))")
        exit(2)
    }
    return target
}()

/// libFuzzer's entry. `deploy/fuzz` builds and runs it; an ordinary build leaves this file out (Package.swift).
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    return 0
}
