import StrictJSON

func printTable(_ figures: [Figure]) {
    print("deliveries  codec               bytes   encode ns   decode ns")
    for figure in figures {
        print(
            left("\(figure.deliveries)", 12) + left(figure.codec, 17) + right("\(figure.bytes)", 8)
                + right("\(nanoseconds(figure.encode))", 12)
                + right("\(nanoseconds(figure.decode))", 12))
    }
}

/// Makes one measure for each figure of the kept codec and of the others. They have no bar, because they guard nothing: they decide
/// docs/decisions/job-encoding.md.
func printLine(_ figures: [Figure], kept: String) {
    var writer = JSONWriter()
    writer.object { writer in
        writer.field("bench", "job-codec")
        writer.array("measures") { writer in
            for own in figures where own.codec == kept {
                for other in figures where other.codec != kept && other.deliveries == own.deliveries {
                    writer.measure("encode_\(own.deliveries)", "ns", nanoseconds(own.encode), other.codec, nanoseconds(other.encode))
                    writer.measure("decode_\(own.deliveries)", "ns", nanoseconds(own.decode), other.codec, nanoseconds(other.decode))
                    writer.measure("size_\(own.deliveries)", "bytes", own.bytes, other.codec, other.bytes)
                }
            }
        }
    }
    print(String(decoding: writer.bytes, as: UTF8.self))
}

extension JSONWriter {
    fileprivate mutating func measure(_ name: String, _ unit: String, _ value: Int, _ baseline: String, _ baselineValue: Int) {
        object { writer in
            writer.field("name", name)
            writer.field("value", value)
            writer.field("unit", unit)
            writer.field("baseline", baseline)
            writer.field("baseline_value", baselineValue)
            writer.field("ratio", (Double(value) / Double(max(1, baselineValue)) * 1000).rounded() / 1000)
            writer.null("bar")
            writer.field("holds", true)
        }
    }
}

private func nanoseconds(_ duration: Duration) -> Int { Int(duration / .nanoseconds(1)) }
private func left(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }
private func right(_ text: String, _ width: Int) -> String { String(repeating: " ", count: max(0, width - text.count)) + text }
