/// Prints the events in sentences, and keeps them for the summary.
struct DemoReport {
    private var steps: [(title: String, facts: Int)] = []

    mutating func begin(_ title: String) throws {
        steps.append((title, 0))
        try StandardOutput.print("\n\(steps.count). \(title)")
    }

    mutating func fact(_ text: String) throws {
        if !steps.isEmpty { steps[steps.count - 1].facts += 1 }
        try StandardOutput.print("   ✓ \(text)")
    }

    func show(_ text: some CustomStringConvertible) throws {
        for line in text.description.split(separator: "\n", omittingEmptySubsequences: false) { try StandardOutput.print("     \(line)") }
    }

    func end(_ next: String) throws {
        var table = Table("STEP", "WHAT HAPPENED", "CHECKED")
        for (index, step) in steps.enumerated() { table.add("\(index + 1)", step.title, "\(counted(step.facts, "fact", "facts")) ✓") }
        try StandardOutput.print("\n\(table)\n\nEverything happened as promised.\n\(next)")
    }
}
