import StrictJSON

extension JSONWriter {
    /// One event in CloudEvents 1.0's structured mode (JSON event format, section 3).
    /// - Parameters:
    ///   - time: UNIX milliseconds.
    ///   - data: Writes the fields of `data`.
    mutating func cloudEvent(id: PushID, source: String, type: String, time: Int64, _ data: (inout JSONWriter) -> Void) {
        object { writer in
            writer.field("specversion", "1.0")
            writer.plainField("id", id.append)
            writer.field("source", source)
            writer.field("type", type)
            writer.plainField("time") { RFC3339.append(milliseconds: time, to: &$0) }
            writer.field("datacontenttype", "application/json")
            writer.object("data", data)
        }
    }
}
