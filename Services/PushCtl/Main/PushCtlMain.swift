import ArgumentParser
import PushCtl

@main
struct PushCtlMain {
    static func main() async { await PushCommand.main() }
}
