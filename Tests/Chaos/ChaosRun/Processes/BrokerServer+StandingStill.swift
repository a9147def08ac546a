/// Suspends processes of the Erlang machine with sys(3). A suspended process keeps what is sent to it, and takes it when it is resumed.
/// `erlang:suspend_process` would not do: it lasts only as long as the process that calls it, here one call of `rabbitmqctl`.
extension BrokerServer {
    /// Suspends the Raft process that leads a quorum queue, on whichever node it is.
    /// - Returns: its name and its node, an Erlang term for ``resume(_:)``.
    func suspendLeader(of queue: String) async throws -> String {
        let term = try await control(
            ["eval", "{ok, _, Leader} = ra:members({'%2F_\(queue)', node()}), ok = sys:suspend(Leader), Leader."])
        return term.filter { !$0.isWhitespace }
    }

    /// Also if another member leads the queue meanwhile.
    func resume(_ leader: String) async throws { try await control(["eval", "sys:resume(\(leader))."]) }

    /// How many clients read the control stream from this node's replica; nil if it has none or leads the stream. The table keeps readers
    /// for a while after they have gone.
    func readersOfReplica() async throws -> Int? {
        let count = try await control(
            [
                "eval",
                """
                \(Self.findReplica),
                Readers = [{element(1, Key), element(2, Key)} || Key <- [element(1, Row) || Row <- ets:tab2list(consumer_created)]],
                case Replicas of
                    [_] -> length([Channel || {Queue, Channel} <- Readers, Queue =:= Stream, is_process_alive(Channel)]);
                    [] -> none
                end.
                """,
            ])
        return Int(count.filter { !$0.isWhitespace })
    }

    func suspendReplica() async throws {
        try await control(["eval", "\(Self.findReplica), [Replica] = Replicas, ok = sys:suspend(Replica)."])
    }

    /// If the stream got another leader meanwhile, its process on this node is a new one, which runs.
    func resumeReplica() async throws {
        try await control(["eval", "\(Self.findReplica), [ok = sys:resume(Replica) || Replica <- Replicas]."])
    }

    /// Binds `Stream` and `Replicas`: the process of a follower on this node, or nothing.
    private static let findReplica = """
        Stream = rabbit_misc:r(<<"/">>, queue, <<"push.control">>), {ok, Record} = rabbit_amqqueue:lookup(Stream),
        Name = maps:get(name, amqqueue:get_type_state(Record)),
        Replicas = [Child || {Id, Child, _, [osiris_replica]} <- supervisor:which_children(osiris_server_sup), Id =:= Name]
        """
}
