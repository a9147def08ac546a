import PushCtl

@main
struct PushCtlMain {
    static func main() async { await PushCommand.run(Array(CommandLine.arguments.dropFirst())) }
}
