import ArgumentParser
import StrictJSON

/// The format in which a command shows the service's answer.
struct OutputOptions: ParsableArguments {
    enum Format: String, CaseIterable, ExpressibleByArgument {
        case text, json
    }

    @Option(name: .shortAndLong, help: "text for people, or json: one document with the fields of the API.")
    var output = Format.text

    var isJSON: Bool { output == .json }

    func show(_ answer: JSONValue, _ text: @autoclosure () -> some CustomStringConvertible) throws {
        if isJSON { try StandardOutput.print(answer.jsonText) } else { try StandardOutput.print(text()) }
    }

    /// Shows an answer that is put together from several.
    func show(_ document: (inout JSONWriter) -> Void, _ text: @autoclosure () -> some CustomStringConvertible) throws {
        guard isJSON else { return try StandardOutput.print(text()) }
        var writer = JSONWriter()
        writer.object(document)
        try StandardOutput.print(String(decoding: writer.bytes, as: UTF8.self))
    }

    /// A list that was read page by page. `more` adds further fields to the document.
    func show(
        _ list: PagedList, as name: String, more: (inout JSONWriter) -> Void = { _ in },
        _ text: @autoclosure () -> some CustomStringConvertible
    ) throws {
        try show(
            { document in
                more(&document)
                document.array(name) { array in
                    for row in list.rows { array.value(row) }
                }
                document.field("has_more", list.hasMore)
            }, "\(text())\(list.hasMore ? "\nThere are more: give a larger --limit." : "")")
    }
}

/// Refuses a format in the commands whose `-o` names a file.
func refuseFormat(_ output: String?) throws {
    guard let output, OutputOptions.Format(rawValue: output) != nil else { return }
    throw ValidationError("an export is always JSON: -o names its file (write ./\(output) for a file of that name)")
}

/// `1 delivery`, `2 deliveries`.
func counted(_ number: some BinaryInteger, _ one: String, _ many: String) -> String { "\(number) \(number == 1 ? one : many)" }
