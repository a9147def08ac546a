/// Prints what happens as a person would want to read it, and remembers it for the summary.
struct DemoReport {
    private var steps: [(title: String, facts: [String])] = []

    mutating func begin(_ title: String) {
        steps.append((title, []))
        print("\n\(steps.count). \(title)")
    }

    mutating func fact(_ text: String) {
        if !steps.isEmpty { steps[steps.count - 1].facts.append(text) }
        print("   ✓ \(text)")
    }

    func show(_ text: some CustomStringConvertible) {
        for line in text.description.split(separator: "\n", omittingEmptySubsequences: false) { print("     \(line)") }
    }

    func printSummary() {
        var table = Table("STEP", "WHAT HAPPENED", "CHECKED")
        for (index, step) in steps.enumerated() { table.add("\(index + 1)", step.title, "\(step.facts.count) facts ✓") }
        print("\n\(table)\n\nEverything happened as promised.")
    }
}
