import Foundation

/// Names the target that this process fuzzes. It comes from the environment, because libFuzzer, whose `main` the program has, starts itself
/// again with its own arguments.
package func chosenFuzzTarget<Target: RawRepresentable<String> & CaseIterable>(of targets: Target.Type) -> Target {
    guard let target = ProcessInfo.processInfo.environment["FUZZ_TARGET"].flatMap(Target.init(rawValue:)) else {
        print("FUZZ_TARGET is one of \(Target.allCases.map(\.rawValue).joined(separator: ", "))")
        exit(2)
    }
    return target
}
