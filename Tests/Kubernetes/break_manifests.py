"""Breaks rendered manifests in one place after the other: check_manifests.py must complain each time, and must not before.

    break_manifests.py PRODUCTION DEMO      the production overlay with KEDA and traces, and the demonstration, both rendered
"""

import copy
import sys

import yaml

from check_manifests import CHECKS, faults
from manifests import Manifests


def pick(documents, kind, name):
    return next(each for each in documents if each and each["kind"] == kind and each["metadata"]["name"] == name)


def pod(documents, name="token-service", kind="Deployment"):
    return pick(documents, kind, name)["spec"]["template"]["spec"]


def container(documents, name="token-service", kind="Deployment"):
    return pod(documents, name, kind)["containers"][0]


def variable(documents, name, text, of="token-service"):
    next(each for each in container(documents, of)["env"] if each["name"] == name)["value"] = text


def policy(documents, name):
    return pick(documents, "NetworkPolicy", name)["spec"]


def scaled(documents):
    return pick(documents, "ScaledObject", "dispatcher-now")["spec"]


def remove(documents, kind, name):
    documents.remove(pick(documents, kind, name))


def open_operations_port(documents):
    policy(documents, "demonstration")["egress"].append({})
    policy(documents, "dispatcher")["ingress"][0]["from"].append({"podSelector": {}})


# What breaks it, and a part of the complaint.
BREAKS = [
    (lambda d: pod(d).update(automountServiceAccountToken=True), "automountServiceAccountToken must be false"),
    (lambda d: pick(d, "ServiceAccount", "dispatcher").pop("automountServiceAccountToken"), "automountServiceAccountToken must be false"),
    (lambda d: remove(d, "ServiceAccount", "migration"), "there is no ServiceAccount migration"),
    (lambda d: pod(d).pop("serviceAccountName"), "no ServiceAccount of its own"),
    (lambda d: pod(d).pop("enableServiceLinks"), "enableServiceLinks"),
    (lambda d: pod(d)["securityContext"].pop("runAsNonRoot"), "may run as root"),
    (lambda d: pod(d)["securityContext"].update(runAsUser=0), "may run as root"),
    (lambda d: container(d)["securityContext"].update(runAsUser=0), "may run as root"),
    (lambda d: pod(d)["securityContext"].pop("seccompProfile"), "seccompProfile"),
    (lambda d: pod(d).update(hostNetwork=True), "hostNetwork"),
    (lambda d: pod(d)["volumes"].append({"name": "host", "hostPath": {"path": "/"}}), "hostPath"),
    (lambda d: pod(d)["volumes"][-1]["emptyDir"].clear(), "sizeLimit"),
    (lambda d: container(d, "migration", "Job")["securityContext"].update(readOnlyRootFilesystem=False), "readOnlyRootFilesystem"),
    (lambda d: container(d)["securityContext"].pop("allowPrivilegeEscalation"), "more privileges"),
    (lambda d: container(d)["securityContext"]["capabilities"].update(add=["NET_ADMIN"]), "capabilities"),
    (lambda d: container(d)["resources"]["requests"].pop("cpu"), "requests no cpu"),
    (lambda d: container(d)["resources"]["limits"].pop("memory"), "memory has no limit"),
    (lambda d: container(d, "dispatcher-bulk")["resources"]["limits"].pop("cpu"), "APNS_THREADS"),
    (lambda d: container(d).pop("startupProbe"), "no startupProbe"),
    (lambda d: container(d).pop("readinessProbe"), "no readinessProbe"),
    (lambda d: container(d, "dispatcher-now")["livenessProbe"]["httpGet"].update(path="/readyz"), "must ask /healthz"),
    (lambda d: container(d, "dispatcher-now")["livenessProbe"].update(failureThreshold=3), "must allow 60 s"),
    (lambda d: container(d)["readinessProbe"]["httpGet"].update(path="/healthz"), "must ask /readyz"),
    (lambda d: remove(d, "PodDisruptionBudget", "dispatcher-bulk"), "0 PodDisruptionBudgets"),
    (lambda d: pick(d, "PodDisruptionBudget", "dispatcher-bulk")["spec"]["selector"]["matchLabels"].pop("push/lanes"),
     "2 PodDisruptionBudgets"),
    (lambda d: pod(d)["topologySpreadConstraints"].pop(), "topology.kubernetes.io/zone"),
    (lambda d: pod(d, "dispatcher-now")["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"].update({"push/lanes": "bulk"}),
     "kubernetes.io/hostname"),
    (lambda d: variable(d, "LANES", "now", "dispatcher-now"), "the dispatchers serve bulk, now;"),
    (lambda d: pod(d).update(terminationGracePeriodSeconds=25), "terminationGracePeriodSeconds is 25"),
    (lambda d: container(d)["env"].append({"name": "SHUTDOWN_DEADLINE_SECONDS", "value": "60"}), "terminationGracePeriodSeconds is 35"),
    (lambda d: container(d)["env"].append({"name": "PREFECTH_NOW", "value": "1"}), "no setting PREFECTH_NOW"),
    (lambda d: container(d)["envFrom"].append({"secretRef": {"name": "administrator"}}), "a Secret in the environment"),
    (lambda d: container(d)["env"].append({"name": "LOG_LEVEL", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}),
     "a Secret in the environment"),
    (lambda d: container(d)["env"].append({"name": "RABBITMQ_URL", "value": "amqps://push:secret@rabbit/"}), "holds a secret"),
    (lambda d: variable(d, "POSTGRES_PASSWORD_FILE", "/run/push/password"), "no volume puts a file there"),
    (lambda d: container(d)["env"].append({"name": "POSTGRES_URL", "value": "postgresql://u@h/d?sslrootcert=/etc/ca.crt"}),
     "POSTGRES_URL names /etc/ca.crt"),
    (lambda d: container(d)["volumeMounts"][0].update(subPath="x"), "subPath"),
    (lambda d: container(d)["volumeMounts"][1].update(name="x"), "there is no volume x"),
    (lambda d: container(d).update(image="push/token-service:latest"), "names no version"),
    (lambda d: container(d).update(image="push/token-service"), "names no version"),
    (lambda d: container(d).update(image="registry.example.com/push/token-service:0.9.0"), "is not of version"),
    (lambda d: remove(d, "NetworkPolicy", "default-deny"), "denies all connections"),
    (lambda d: remove(d, "NetworkPolicy", "to-postgresql"), "Job migration: no NetworkPolicy selects it"),
    (lambda d: policy(d, "to-rabbitmq")["podSelector"].update(matchExpressions=[], matchLabels={"app.kubernetes.io/name": "x"}),
     "selects no pod"),
    (lambda d: policy(d, "token-service")["ingress"][0].pop("from"), "names no peer"),
    (lambda d: policy(d, "token-service")["ingress"][0]["ports"][0].update(port=8081), "has the port 8081"),
    (lambda d: policy(d, "token-service")["egress"].append({"to": [{"podSelector": {"matchLabels": {"a": "b"}}}]}), "selects no pod"),
    (lambda d: policy(d, "dispatcher")["ingress"][0]["from"].append({"podSelector": {}}), "dispatcher-now: a NetworkPolicy lets"),
    (lambda d: policy(d, "token-service")["ingress"][0]["ports"][0].update(port=9090), "token-service: a NetworkPolicy lets"),
    (lambda d: policy(d, "token-service")["ingress"][0].pop("ports"), "token-service: a NetworkPolicy lets"),
    (lambda d: policy(d, "token-service")["ingress"][1]["ports"].append({"port": 8080}), "connect to port 8080"),
    (lambda d: policy(d, "token-service")["ingress"].pop(), "token-service: no NetworkPolicy lets Prometheus connect to port 9090"),
    (lambda d: variable(d, "OPERATIONS_PORT", "9091"), "token-service: OPERATIONS_HOST must be"),
    (lambda d: variable(d, "OPERATIONS_HOST", "127.0.0.1", "dispatcher-bulk"), "dispatcher-bulk: OPERATIONS_HOST must be"),
    (lambda d: container(d)["ports"].pop(), "token-service: OPERATIONS_HOST must be"),
    (lambda d: container(d)["readinessProbe"]["httpGet"].update(port="http"), "readinessProbe must ask the port operations"),
    (lambda d: variable(d, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel-collector:4317"), "Deployment token-service: it sends spans"),
    (lambda d: remove(d, "NetworkPolicy", "to-trace-collector"), "Deployment dispatcher-now: it sends spans"),
    (lambda d: policy(d, "to-trace-collector")["podSelector"].pop("matchExpressions"), "Job migration: it sends spans to None"),
    (lambda d: pick(d, "Service", "token-service")["spec"]["selector"].update({"app.kubernetes.io/name": "tokens"}), "it selects no pod"),
    (lambda d: pick(d, "Service", "dispatcher-now")["spec"]["ports"][0].update(targetPort="http"), "has no port http"),
    (lambda d: pick(d, "Service", "dispatcher-now")["spec"].pop("publishNotReadyAddresses"), "publishNotReadyAddresses"),
    (lambda d: pick(d, "Service", "token-service-metrics")["spec"]["ports"][0].update(targetPort="http"), "at the port operations"),
    (lambda d: pick(d, "Deployment", "token-service")["metadata"].pop("namespace"), "not in the namespace push"),
    (lambda d: pick(d, "Namespace", "push")["metadata"]["labels"].pop("pod-security.kubernetes.io/enforce"), "restricted profile"),
    (lambda d: pod(d, "dispatcher-now")["volumes"][1]["secret"].update(secretName="keys"), "does not make the Secret keys"),
    (lambda d: scaled(d).update(maxReplicas=3), "no field maxReplicas"),
    (lambda d: scaled(d)["triggers"][0].update(metric="x"), "no field metric"),
    (lambda d: scaled(d)["scaleTargetRef"].update(name="dispatcher"), "there is no Deployment dispatcher"),
    (lambda d: pick(d, "Deployment", "dispatcher-now")["spec"].update(replicas=2), "names a number of replicas"),
    (lambda d: scaled(d).update(minReplicaCount=0), "expected 1 <= minReplicaCount"),
    (lambda d: scaled(d)["triggers"][0]["metadata"].update(query="max(push:lane_presure)"), "records no push:lane_presure"),
    (lambda d: scaled(d)["triggers"][0].update(metricType="AverageValue"), "metricType Value"),
    (lambda d: scaled(d)["triggers"][0]["metadata"].update(threshold=1), "reads threshold as a text"),
]

# Those of the demonstration, which has servers in its namespace.
DEMO_BREAKS = [
    (lambda d: policy(d, "to-servers")["podSelector"]["matchExpressions"][0]["values"].remove("migration"),
     "no NetworkPolicy lets migration connect to postgresql at port 5432"),
    (lambda d: policy(d, "rabbitmq")["ingress"][0].update(ports=[{"port": 5671}]),
     "no NetworkPolicy lets dispatcher-bulk connect to rabbitmq at port 5672"),
    (lambda d: policy(d, "postgresql")["ingress"][0]["from"][0].update(podSelector={}), "let dispatcher-now connect to postgresql"),
    (lambda d: policy(d, "default-deny").update(policyTypes=["Egress"]) or remove(d, "NetworkPolicy", "postgresql"),
     "let dispatcher-now connect to postgresql at port 5432"),
    (lambda d: policy(d, "apns-simulator")["ingress"].append({"from": [{"podSelector": {}}]}),
     "let dispatcher-bulk connect to apns-simulator at port 2199"),
    (lambda d: policy(d, "demonstration")["egress"].append({}) or policy(d, "token-service-demonstration")["ingress"][0].pop("ports"),
     "let demonstration connect to token-service at port 9090"),
    (open_operations_port, "let demonstration connect to dispatcher-bulk at port 9090"),
    (lambda d: pod(d, "credentials", "Job").update(automountServiceAccountToken=False), "automountServiceAccountToken must be true"),
    (lambda d: container(d, "postgresql", "StatefulSet")["env"].append({"name": "POSTGRES_PASSWORD", "value": "x"}), "holds a secret"),
]


def check(path, breaks):
    with open(path, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    failures = [f"{path}, without a break: {fault}" for fault in faults(Manifests(copy.deepcopy(documents)))]
    for number, (spoil, complaint) in enumerate(breaks):
        broken = copy.deepcopy(documents)
        spoil(broken)
        if not any(complaint in fault for fault in faults(Manifests(broken))):
            failures.append(f"{path}, break {number}: check_manifests.py does not say: {complaint}")
    return failures


def main():
    failures = check(sys.argv[1], BREAKS) + check(sys.argv[2], DEMO_BREAKS)
    for failure in failures:
        print(f"    {failure}", file=sys.stderr)
    if failures:
        print(f"break_manifests.py: {len(failures)} failures", file=sys.stderr)
        sys.exit(1)
    print(f"{len(CHECKS)} checks find each of {len(BREAKS) + len(DEMO_BREAKS)} breaks")


main()
