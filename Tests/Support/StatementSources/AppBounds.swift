/// Finds the rows of a statement that may belong to any app: those that are compared neither with an app nor with a row of one.
///
/// A row is bound to an app if its `app_id` is compared with a parameter that is an app, with that of a row that is bound, or with that of
/// an entry which names its app (`unnest(…) AS e (app_id, …)`). A row is also bound if a key that is unique among all apps is compared with
/// a column of a bound row. The id of an installation is no such key: two apps may have an installation of one id.
package struct AppBounds {
    /// The columns of each table and view.
    let columns: [String: Set<String>]

    package init(columns: [String: Set<String>]) { self.columns = columns }

    /// - Parameter worksForAllApps: The statement may begin with rows of any app: with all of them, or with those that a key names that is
    ///   unique among all apps. Whatever hangs on these rows must still be compared with them.
    /// - Returns: the tables whose rows are not bound, in the order of the text; empty if all are.
    package func unbound(in statement: SourceStatement, worksForAllApps: Bool) -> [String] {
        var reader = SQLReader(statement.sql)
        let apps = Set(statement.parameters.indices.filter { Self.isApp(statement.parameters[$0]) }.map { "$\($0 + 1)" })
        let query = Query(bounds: self, apps: apps, mayBeginAnywhere: worksForAllApps)
        return query.look(at: reader.nodes(), in: [:]).unbound
    }

    /// `app`, `app.id`, `scope.app`, `key.app`, `app.slug` …
    private static func isApp(_ expression: String) -> Bool {
        expression.contains(/^(\w+\.)*app\??(\.(id|slug))?$/)
    }

    /// Whether its rows belong to an app.
    fileprivate func belongsToApp(_ table: String) -> Bool {
        guard let columns = columns[table], table != "apps" else { return false }
        return !columns.isDisjoint(with: ["app_id", "app", "notification", "webhook", "installation"])
    }

    /// Whether another app may have another row with the same value.
    fileprivate func isName(_ column: String, of table: String) -> Bool {
        column == "id" && !isKey(column, of: table)
            || ["installation", "owner", "owned_by", "ordinal", "target_user", "target_installation", "token", "name", "key"].contains(
                column)
    }

    fileprivate func isKey(_ column: String, of table: String) -> Bool {
        let perApp: Set = [
            "installations", "installation_records", "installation_sizes", "activities", "activity_records", "addressees", "update_targets",
        ]
        return switch column {
        case "id": !perApp.contains(table)
        case "notification", "webhook", "token_id", "channel": true
        default: false
        }
    }
}

/// What a name in FROM stands for.
private struct Source {
    /// The table; empty for anything else.
    var table = ""
    /// Its rows belong to the statement's app, or to no app.
    var isBound = false
    /// The caller's values, which bind nothing but by an app of their own.
    var isGiven = false
    var namesApp = false
    /// Something is compared with it that means another row in each app.
    var isNamed = false
    /// Of a row that may be compared from below and from above: `(app_id, id) < ($1, $2)`.
    var halves: Set<String> = []
}

private struct Look {
    var unbound: [String] = []
    var isGiven = false
    var namesApp = false
}

private struct Query {
    let bounds: AppBounds
    /// The parameters that are apps.
    let apps: Set<String>
    let mayBeginAnywhere: Bool

    /// A query, or several with UNION between them, behind its WITH.
    func look(at nodes: [SQLNode], in outer: [String: Source]) -> Look {
        var (names, rest, unbound) = (outer, nodes[...], [String]())
        if rest.first?.isWord("with") == true {
            rest = rest.dropFirst()
            if rest.first?.isWord("recursive") == true { rest = rest.dropFirst() }
            while let name = rest.popFirst()?.word {
                let isRecursive = nodes.dropFirst().first?.isWord("recursive") == true
                if isRecursive { names[name] = Source(isBound: true) }
                while let next = rest.popFirst() {
                    guard case .group(let body) = next, body.first?.beginsQuery == true else { continue }
                    let found = look(at: body, in: names)
                    unbound += found.unbound
                    names[name] = Source(isBound: !found.isGiven, isGiven: found.isGiven, namesApp: found.namesApp)
                    break
                }
                guard rest.first?.isPunctuation(",") == true else { break }
                rest = rest.dropFirst()
            }
        }
        let parts = rest.split { $0.isWord("union") }.map { part in
            part.first?.isWord("all") == true ? part.dropFirst() : part
        }
        var looks: [Look] = []
        for part in parts {
            if part.count == 1, case .group(let body) = part[part.startIndex] {
                looks.append(look(at: body, in: names))
            } else {
                looks.append(lookAtOne(Array(part), in: names))
            }
        }
        return Look(
            unbound: unbound + looks.flatMap(\.unbound), isGiven: looks.contains(where: \.isGiven),
            namesApp: looks.allSatisfy(\.namesApp))
    }

    private struct Entry {
        var name: String
        var table = ""
        var body: [SQLNode]?
        var arguments: [SQLNode]?
        var columns: [String] = []
    }

    private func lookAtOne(_ nodes: [SQLNode], in outer: [String: Source]) -> Look {
        var entries: [Entry] = []
        var conditions: [[SQLNode]] = []
        var others: [SQLNode] = []
        read(nodes, &entries, &conditions, &others)
        var names = outer
        for entry in entries {
            if entry.body == nil, entry.arguments == nil {
                // A name of WITH, or a table.
                names[entry.name] =
                    bounds.columns[entry.table] == nil || outer[entry.table] != nil && entry.table != entry.name
                    ? outer[entry.table] ?? Source(isBound: true)
                    : outer[entry.table] ?? Source(table: entry.table, isBound: !bounds.belongsToApp(entry.table))
            } else {
                names[entry.name] = Source()
            }
        }
        let own = entries.filter { names[$0.name]?.table.isEmpty == false }.map(\.name)
        var unbound: [String] = []
        for round in 0...2 * entries.count {
            if mayBeginAnywhere, round > entries.count,
                let first = own.first(where: { names[$0]?.isBound == false && names[$0]?.isNamed == false })
            {
                names[first]?.isBound = true
            }
            unbound = []
            for entry in entries {
                if let body = entry.body {
                    let found = look(at: body, in: names)
                    unbound += found.unbound
                    names[entry.name] = Source(
                        isBound: found.unbound.isEmpty && !found.isGiven, isGiven: found.isGiven, namesApp: found.namesApp)
                } else if let arguments = entry.arguments {
                    unbound += nested(arguments, in: names)
                    names[entry.name] = function(entry, arguments, names)
                    if names[entry.name]?.isBound == false, names[entry.name]?.isGiven == false { unbound.append(entry.table) }
                }
            }
            for condition in conditions { bind(&names, own, by: condition) }
        }
        for nodes in conditions + [others] { unbound += nested(nodes, in: names) }
        unbound += own.filter { names[$0]?.isBound == false }.map { names[$0]?.table ?? "" }
        let sources = entries.compactMap { names[$0.name] }
        return Look(
            unbound: unbound, isGiven: !sources.isEmpty && sources.allSatisfy(\.isGiven),
            namesApp: sources.contains(where: \.namesApp))
    }

    private func function(_ entry: Entry, _ arguments: [SQLNode], _ names: [String: Source]) -> Source {
        switch entry.table {
        case "unnest", "generate_series", "jsonb_to_recordset":
            // The elements of a row's own array belong to the row.
            let isOwn = references(in: arguments).contains { names[$0.name]?.isBound == true }
            return Source(isBound: isOwn, isGiven: !isOwn, namesApp: !entry.columns.allSatisfy { !["app_id", "app"].contains($0) })
        case "members_of", "reach_of", "activities_shown_on", "partition_states":
            // They read what belongs to the row that they are given, or to entries that name their app; or no rows of apps.
            return Source(isBound: true)
        default:
            let isBound =
                arguments.contains { apps.contains($0.word ?? "") }
                || references(in: arguments).contains { names[$0.name]?.isBound == true }
                || arguments.contains { node in
                    guard case .group(let body) = node, body.first?.beginsQuery == true else { return false }
                    let found = look(at: body, in: names)
                    return found.unbound.isEmpty && !found.isGiven
                }
            return Source(isBound: isBound)
        }
    }

    private func references(in nodes: [SQLNode]) -> [(name: String, column: String)] {
        nodes.flatMap { node -> [(name: String, column: String)] in
            switch node {
            case .group(let body): return body.first?.beginsQuery == true ? [] : references(in: body)
            case .word(let word):
                let parts = word.split(separator: ".").map(String.init)
                return [(parts[0], parts.count > 1 ? parts[1] : "")]
            case .punctuation: return []
            }
        }
    }

    /// The queries within expressions.
    private func nested(_ nodes: [SQLNode], in names: [String: Source]) -> [String] {
        nodes.flatMap { node -> [String] in
            guard case .group(let body) = node else { return [] }
            return body.first?.beginsQuery == true ? look(at: body, in: names).unbound : nested(body, in: names)
        }
    }

    // MARK: Clauses

    private static let clauses: Set = [
        "select", "from", "where", "on", "set", "using", "join", "left", "right", "inner", "cross", "group", "order", "limit", "returning",
        "having", "window", "for", "offset", "fetch", "values", "when",
    ]

    private func read(_ nodes: [SQLNode], _ entries: inout [Entry], _ conditions: inout [[SQLNode]], _ others: inout [SQLNode]) {
        var rest = nodes[...]
        var clause = ""
        var condition: [SQLNode] = []
        func isEntryNext(after word: String) -> Bool { ["from", "join", "using", "update", "into"].contains(word) }
        var previous: SQLNode?
        while let node = rest.popFirst() {
            defer { previous = node }
            if let word = node.word?.lowercased(),
                Self.clauses.contains(word) || word == "update" && clause.isEmpty || word == "into" || word == "delete",
                !(word == "from" && previous?.isWord("distinct") == true), !(word == "update" && previous?.isWord("do") == true)
            {
                if !condition.isEmpty { conditions.append(condition) }
                condition = []
                // Neither the target of an INSERT nor a lock reads rows of others.
                let isInsert = word == "into" && previous?.isWord("insert") == true
                clause = word == "for" ? "for" : isInsert ? "insert" : word
                if clause == "for" {
                    while let next = rest.first, !next.isWord("union") { others.append(next); rest = rest.dropFirst() }
                    continue
                }
                if clause == "insert" { rest = rest.dropFirst(2 + (rest.dropFirst().first?.isWord("as") == true ? 2 : 0)); continue }
                if isEntryNext(after: clause),
                    !(clause == "using" && !entries.isEmpty && rest.first?.isGroup == true && !(rest.first?.holdsQuery ?? false))
                {
                    entries += entry(&rest)
                }
                continue
            }
            if node.isPunctuation(","), ["from", "using"].contains(clause) {
                entries += entry(&rest)
                continue
            }
            switch clause {
            case "where", "on": condition.append(node)
            default: others.append(node)
            }
        }
        if !condition.isEmpty { conditions.append(condition) }
    }

    private func entry(_ rest: inout ArraySlice<SQLNode>) -> [Entry] {
        while let first = rest.first, first.isWord("lateral") || first.isWord("only") { rest = rest.dropFirst() }
        guard let first = rest.popFirst() else { return [] }
        var entry: Entry
        switch first {
        case .group(let body): entry = Entry(name: "", body: body)
        case .word(let word):
            entry = Entry(name: word, table: word)
            if case .group(let arguments) = rest.first {
                entry.arguments = arguments
                rest = rest.dropFirst()
                if rest.first?.isWord("with") == true { rest = rest.dropFirst(2) }
            }
        case .punctuation: return []
        }
        if rest.first?.isWord("as") == true { rest = rest.dropFirst() }
        if let name = rest.first?.word, !Self.clauses.contains(name.lowercased()), !["full", "natural", "do"].contains(name) {
            entry.name = name
            rest = rest.dropFirst()
            if case .group(let names) = rest.first {
                entry.columns = names.compactMap(\.word)
                rest = rest.dropFirst()
            }
        }
        return [entry]
    }

    // MARK: Comparisons

    private func bind(_ names: inout [String: Source], _ own: [String], by condition: [SQLNode]) {
        let alternatives = condition.split { $0.isWord("or") }
        guard alternatives.count < 2 else {
            // Bound by each of them.
            let results = alternatives.map { alternative in
                var result = names
                bind(&result, own, by: Array(alternative))
                return result
            }
            for name in own where results.allSatisfy({ $0[name]?.isBound == true }) { names[name]?.isBound = true }
            return
        }
        for (place, node) in condition.enumerated() {
            let before = place > 0 ? condition[place - 1] : nil
            if case .group(let body) = node, !body.isEmpty, body.first?.beginsQuery == false, before?.isWord("not") != true,
                before?.word == nil || before?.isWord("and") == true
            {
                bind(&names, own, by: body)
            }
            guard place > 0, place + 1 < condition.count else { continue }
            if node.isWord("is"), let tested = before?.word {
                let words = condition[(place + 1)...].prefix(4).compactMap(\.word)
                if words.first?.lowercased() == "null" {
                    // A row of no app, or a caller who may see every app.
                    if apps.contains(tested) { for name in own { names[name]?.isBound = true } }
                    if let (name, bare) = resolve(tested, own, names), bare == "app_id" { names[name]?.isBound = true }
                } else if words.count == 4, words.prefix(3).map({ $0.lowercased() }) == ["not", "distinct", "from"],
                    apps.contains(words[3]),
                    let (name, bare) = resolve(tested, own, names), bare == "app_id"
                {
                    names[name]?.isBound = true
                }
            }
            let (left, right) = (condition[place - 1], condition[place + 1])
            if node.isPunctuation("=") {
                compare(&names, own, left, right, Array(condition[(place + 1)...]))
                compare(&names, own, right, left, [left])
            } else if node.isWord("in") {
                compare(&names, own, left, right, [right])
                // `(app_id, id) IN (SELECT * FROM unnest(…))`: entries that name their app.
                if case .group(let columns) = left, let column = columns.first?.word, let (name, bare) = resolve(column, own, names),
                    bare == "app_id", let body = query(in: [right]), look(at: body, in: names).isGiven
                {
                    names[name]?.isBound = true
                }
            } else if node.isPunctuation("<") || node.isPunctuation(">") || node.isPunctuation(">=") || node.isPunctuation("<=") {
                guard case .group(let columns) = left, case .group(let values) = right, let column = columns.first?.word,
                    let value = values.first?.word, apps.contains(value), let (name, bare) = resolve(column, own, names), bare == "app_id"
                else { continue }
                if case .punctuation(let sign) = node { names[name]?.halves.insert(String(sign.prefix(1))) }
                if names[name]?.halves.count == 2 { names[name]?.isBound = true }
            }
        }
    }

    private func compare(
        _ names: inout [String: Source], _ own: [String], _ left: SQLNode, _ right: SQLNode, _ rest: [SQLNode]
    ) {
        let columns: [String]
        switch left {
        case .word(let word): columns = [word]
        case .group(let nodes): columns = nodes.first?.beginsQuery == true ? [] : nodes.compactMap(\.word)
        case .punctuation: return
        }
        for column in columns {
            guard let (name, bare) = resolve(column, own, names), let source = names[name], !source.isBound else { continue }
            let isApp = bare == "app_id" || bare == "app"
            let isKey = bounds.isKey(bare, of: source.table)
            if bounds.isName(bare, of: source.table), !isUnboundName(right, own, names) { names[name]?.isNamed = true }
            if isKey, mayBeginAnywhere, isGiven(right, names) { names[name]?.isBound = true }
            guard isApp || isKey else { continue }
            if isApp, let value = right.word, apps.contains(value) { names[name]?.isBound = true }
            if let value = right.word, !value.hasPrefix("$"),
                let (other, otherColumn) = resolve(value, Array(names.keys), names, isQualified: true)
            {
                guard let otherSource = names[other], other != name else { continue }
                if isKey, otherSource.isBound, !otherSource.isGiven, otherSource.table != "apps" { names[name]?.isBound = true }
                if isApp, ["app_id", "app"].contains(otherColumn), otherSource.isBound || otherSource.namesApp {
                    names[name]?.isBound = true
                }
            }
            // `(SELECT …)`, `ANY (ARRAY(SELECT …))`
            if isKey, let body = query(in: rest) {
                let found = look(at: body, in: names)
                if found.unbound.isEmpty, !found.isGiven { names[name]?.isBound = true }
            }
        }
    }

    /// Of two rows that name each other, one may be the beginning.
    private func isUnboundName(_ node: SQLNode, _ own: [String], _ names: [String: Source]) -> Bool {
        guard let word = node.word, let (name, column) = resolve(word, own, names, isQualified: true), own.contains(name),
            let source = names[name]
        else { return false }
        return !source.isBound && bounds.isName(column, of: source.table)
    }

    private func isGiven(_ node: SQLNode, _ names: [String: Source]) -> Bool {
        guard let word = node.word else { return false }
        let name = word.split(separator: ".").first.map(String.init) ?? ""
        return word.hasPrefix("$") || word.lowercased() == "any" || names[name]?.isGiven == true
    }

    private func query(in nodes: [SQLNode]) -> [SQLNode]? {
        var nodes = nodes[...]
        while let first = nodes.popFirst() {
            switch first {
            case .word(let word) where ["any", "array"].contains(word.lowercased()): continue
            case .group(let body): return body.first?.beginsQuery == true ? body : query(in: body)
            default: return nil
            }
        }
        return nil
    }

    private func resolve(
        _ reference: String, _ own: [String], _ names: [String: Source], isQualified: Bool = false
    ) -> (name: String, column: String)? {
        let parts = reference.split(separator: ".").map(String.init)
        if parts.count == 2 { return names[parts[0]] == nil ? nil : (parts[0], parts[1]) }
        guard !isQualified else { return nil }
        let holders = own.filter { bounds.columns[names[$0]?.table ?? ""]?.contains(reference) == true }
        return holders.count == 1 ? (holders[0], reference) : nil
    }
}

/// A word is a name with its qualifier, a parameter or a literal.
private enum SQLNode {
    case word(String)
    case punctuation(String)
    case group([SQLNode])

    var word: String? { if case .word(let word) = self { word } else { nil } }
    var isGroup: Bool { if case .group = self { true } else { false } }
    var holdsQuery: Bool { if case .group(let body) = self { body.first?.beginsQuery == true } else { false } }
    var beginsQuery: Bool {
        switch self {
        case .word(let word): ["select", "with", "update", "insert", "delete", "merge"].contains(word.lowercased())
        case .group(let body): body.first?.beginsQuery == true
        case .punctuation: false
        }
    }
    func isWord(_ text: String) -> Bool { word?.lowercased() == text }
    func isPunctuation(_ text: String) -> Bool { if case .punctuation(text) = self { true } else { false } }
}

private struct SQLReader {
    private var rest: Substring.UnicodeScalarView

    init(_ sql: String) { rest = sql.replacing(/--[^\n]*/, with: "")[...].unicodeScalars }

    mutating func nodes() -> [SQLNode] {
        var nodes: [SQLNode] = []
        while let first = rest.first {
            switch first {
            case "(":
                rest.removeFirst()
                nodes.append(.group(self.nodes()))
            case ")":
                rest.removeFirst()
                return nodes
            case "'":
                rest.removeFirst()
                rest = rest.drop { $0 != "'" }.dropFirst()
                nodes.append(.word("'"))
            case "\"", "a"..."z", "A"..."Z", "_", "$", "0"..."9": nodes.append(.word(name()))
            case " ", "\n": rest.removeFirst()
            case ":":
                // A cast, which changes no value here.
                rest = rest.dropFirst(2)
                _ = name()
                rest = rest.drop { $0 == "[" || $0 == "]" }
            case "<", ">", "=", "!":
                let sign = rest.prefix { "<>=!".unicodeScalars.contains($0) }
                rest = rest.dropFirst(sign.count)
                nodes.append(.punctuation(String(sign)))
            default:
                rest.removeFirst()
                nodes.append(.punctuation(String(first)))
            }
        }
        return nodes
    }

    private mutating func name() -> String {
        let name = rest.prefix { $0.properties.isAlphabetic || ("0"..."9").contains($0) || "_$.\"".unicodeScalars.contains($0) }
        rest = rest.dropFirst(name.count)
        return String(name).replacing("\"", with: "")
    }
}
