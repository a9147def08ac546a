import Fuzzing

private let target = chosenFuzzTarget(of: FuzzTarget.self)

/// libFuzzer's entry. `deploy/fuzz` builds and runs it; an ordinary build leaves this file out (Package.swift).
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    return 0
}
