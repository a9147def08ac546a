"""Checks what kubernetes-validate does not know: that rendered manifests are as strict as docs/guides/kubernetes.md says, and fit the
programs.

    check_manifests.py FILE…      each the output of `kustomize build`
"""

import re
import sys

import reference
from connections import PROBES, check_flows, check_network, check_operations, check_traces
from manifests import Manifests, matches

# The demonstration's: it keeps its devices in memory, so there is one, and its loss stops nothing that matters.
SINGLE = {"apns-simulator"}
# The demonstration's Job that stores Secrets.
CALLS_KUBERNETES = {"credentials"}
PERMITTED_VOLUMES = {"name", "projected", "secret", "configMap", "emptyDir"}
CLUSTER_WIDE = {"Namespace"}
LANES = {"now", "soon", "bulk"}
# The fields of KEDA's ScaledObject that are used here, from its specification (keda.sh, version 2.18).
SCALED_OBJECT = {
    "": {"scaleTargetRef", "pollingInterval", "minReplicaCount", "maxReplicaCount", "fallback", "advanced", "triggers"},
    "scaleTargetRef": {"name"},
    "fallback": {"failureThreshold", "replicas", "behavior"},
    "advanced": {"horizontalPodAutoscalerConfig"},
    "triggers": {"type", "metricType", "metadata"},
    "metadata": {"serverAddress", "query", "threshold", "ignoreNullValues"},
}


def check_accounts(manifests):
    for pod in manifests.pods:
        spec, name = pod.spec, pod.spec.get("serviceAccountName")
        if spec.get("automountServiceAccountToken") is not (pod.name in CALLS_KUBERNETES):
            yield f"{pod}: automountServiceAccountToken must be {str(pod.name in CALLS_KUBERNETES).lower()}"
        if name and not manifests.named("ServiceAccount", name):
            yield f"{pod}: there is no ServiceAccount {name}"
        if any(pod.program(container) for container in pod.containers) and not name:
            yield f"{pod}: it has no ServiceAccount of its own"
        if spec.get("enableServiceLinks") is not False:
            yield f"{pod}: enableServiceLinks must be false, or Kubernetes adds variables that look like misspelt settings"
    for account in manifests.kind("ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield f"ServiceAccount {account['metadata']['name']}: automountServiceAccountToken must be false"


def check_security(manifests):
    """The restricted profile of the Pod Security Standards, and a read-only root file system."""
    for pod in manifests.pods:
        security = pod.spec.get("securityContext", {})
        if security.get("runAsNonRoot") is not True or not security.get("runAsUser"):
            yield f"{pod}: it may run as root; set runAsNonRoot and runAsUser"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{pod}: seccompProfile must be RuntimeDefault"
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.spec.get(field):
                yield f"{pod}: {field} is not permitted"
        for name, volume in pod.volumes.items():
            for kind in volume.keys() - PERMITTED_VOLUMES:
                yield f"{pod}: the volume {name} is a {kind}, which is not permitted"
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{pod}: the volume {name} may fill the host's disk; set a sizeLimit"
        for container in pod.containers:
            own = container.get("securityContext", {})
            if own.get("readOnlyRootFilesystem") is not True:
                yield f"{pod}: readOnlyRootFilesystem must be true"
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                yield f"{pod}: the container may get more privileges"
            if own.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{pod}: the container must drop ALL capabilities and add none"
            if own.get("runAsUser") == 0 or own.get("runAsNonRoot") is False:
                yield f"{pod}: it may run as root; set runAsNonRoot and runAsUser"


def check_resources(manifests):
    for pod in manifests.pods:
        for container in pod.containers:
            requests, limits = (container.get("resources", {}).get(part, {}) for part in ("requests", "limits"))
            for missing in {"cpu", "memory"} - requests.keys():
                yield f"{pod}: it requests no {missing}"
            if "memory" not in limits:
                yield f"{pod}: its memory has no limit"
            if pod.program(container) == "dispatcher":
                threads = next((each for each in container["env"] if each["name"] == "APNS_THREADS"), {})
                if threads.get("valueFrom", {}).get("resourceFieldRef", {}).get("resource") != "limits.cpu" or "cpu" not in limits:
                    yield f"{pod}: APNS_THREADS must come from the processors' limit"


def check_availability(manifests):
    for pod in manifests.pods:
        if pod.kind != "Deployment":
            continue
        container = pod.containers[0]
        for probe in PROBES:
            if probe not in container:
                yield f"{pod}: it has no {probe}"
        liveness = container.get("livenessProbe", {})
        if liveness.get("httpGet", {}).get("path") != "/healthz":
            yield f"{pod}: livenessProbe must ask /healthz: /readyz fails while RabbitMQ or PostgreSQL is away"
        if liveness.get("periodSeconds", 0) * liveness.get("failureThreshold", 0) < 60:
            yield f"{pod}: livenessProbe must allow 60 s"
        if pod.name in SINGLE:
            continue
        if container.get("readinessProbe", {}).get("httpGet", {}).get("path") != "/readyz":
            yield f"{pod}: readinessProbe must ask /readyz"
        budgets = [each for each in manifests.kind("PodDisruptionBudget") if matches(each["spec"]["selector"], pod.labels)]
        if len(budgets) != 1:
            yield f"{pod}: {len(budgets)} PodDisruptionBudgets select it; it needs one"
        spread = {each["topologyKey"]: each for each in pod.spec.get("topologySpreadConstraints", [])}
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone"):
            if key not in spread or not matches(spread[key]["labelSelector"], pod.labels):
                yield f"{pod}: topologySpreadConstraints do not spread it over {key}"
    lanes = set()
    for pod in manifests.pods:
        for container in pod.containers:
            if pod.program(container) == "dispatcher":
                lanes |= set(pod.environment(container)["LANES"].split(","))
    if lanes != LANES:
        yield f"the dispatchers serve {', '.join(sorted(lanes))}; every lane of {', '.join(sorted(LANES))} needs one"


def check_end(manifests):
    settings = reference.settings()
    for pod in manifests.pods:
        for container in pod.containers:
            known = settings.get(pod.program(container), {})
            if "SHUTDOWN_DEADLINE_SECONDS" not in known or pod.kind != "Deployment":
                continue
            deadline = int(pod.environment(container).get("SHUTDOWN_DEADLINE_SECONDS", known["SHUTDOWN_DEADLINE_SECONDS"]))
            command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
            before, grace = int(command[-1]), pod.spec.get("terminationGracePeriodSeconds", 30)
            if grace < before + deadline + 5:
                yield (f"{pod}: terminationGracePeriodSeconds is {grace}; preStop takes {before} s and a graceful stop {deadline} s: "
                       "allow 5 s more")


def check_settings(manifests):
    settings = reference.settings()
    for pod in manifests.pods:
        for container in pod.containers:
            for source in container.get("envFrom", []):
                if "secretRef" in source:
                    yield f"{pod}: a Secret in the environment; mount it as a file"
            for variable in container.get("env", []):
                if "secretKeyRef" in variable.get("valueFrom", {}):
                    yield f"{pod}: {variable['name']} is a Secret in the environment; mount it as a file"
            environment = pod.environment(container)
            program = pod.program(container)
            for name, value in environment.items():
                if program and program in settings and name not in settings[program]:
                    yield f"{pod}: {program} has no setting {name}"
                if re.search(r"(PASSWORD|PASS|SECRET|KEY|TOKEN)$", name) or re.search(r"://[^/@]*:[^/@]*@", value or ""):
                    yield f"{pod}: {name} holds a secret; put it into a file"
                for path in [value] if name.endswith("_FILE") else re.findall(r"sslrootcert=([^&]*)", value or ""):
                    if not pod.has_file(container, path):
                        yield f"{pod}: {name} names {path}, and no volume puts a file there"
            for mount in container.get("volumeMounts", []):
                if "subPath" in mount:
                    yield f"{pod}: Kubernetes never updates a file of a subPath ({mount['mountPath']}); mount the folder"
                if mount["name"] not in pod.volumes:
                    yield f"{pod}: there is no volume {mount['name']}"


def check_images(manifests):
    for pod in manifests.pods:
        for container in pod.containers:
            image, program = container["image"], pod.program(container)
            tag = image.partition("@")[2] or image.rpartition("/")[2].partition(":")[2]
            if not tag or tag == "latest":
                yield f"{pod}: the image {image} names no version"
            elif program and "sha256" not in tag and tag != reference.version():
                yield f"{pod}: the image {image} is not of version {reference.version()} (deploy/Dockerfile)"


def check_services(manifests):
    for service in manifests.kind("Service"):
        name, spec = service["metadata"]["name"], service["spec"]
        pods = manifests.selected({"matchLabels": spec["selector"]})
        if not pods:
            yield f"Service {name}: it selects no pod"
        for port in spec["ports"]:
            for pod in pods:
                if port["targetPort"] not in pod.ports():
                    yield f"Service {name}: {pod} has no port {port['targetPort']}"
        if "push/metrics" in service["metadata"]["labels"] and {port["targetPort"] for port in spec["ports"]} != {"operations"}:
            yield f"Service {name}: Prometheus reads the metrics at the port operations"
        if spec.get("clusterIP") == "None" and spec.get("publishNotReadyAddresses") is not True:
            yield f"Service {name}: Prometheus would not see the metrics of a pod that is not ready; set publishNotReadyAddresses"


def check_namespace(manifests):
    for document in manifests.all:
        if document["kind"] not in CLUSTER_WIDE and document["metadata"].get("namespace") != "push":
            yield f"{document['kind']} {document['metadata']['name']}: it is not in the namespace push"
    for namespace in manifests.kind("Namespace"):
        if namespace["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce") != "restricted":
            yield "the Namespace does not enforce the restricted profile"


def check_guide(manifests):
    """A person makes the Secrets by the guide; the demonstration's Job makes its own."""
    if manifests.named("Job", "credentials"):
        return
    guide = reference.guide()
    for pod in manifests.pods:
        for secret in pod.secrets():
            if f"create secret generic {secret} " not in guide:
                yield f"{pod}: docs/guides/kubernetes.md does not make the Secret {secret}"


def check_scaling(manifests):
    recorded = reference.recorded_series()
    for scaled in manifests.kind("ScaledObject"):
        name, spec = scaled["metadata"]["name"], scaled["spec"]
        for path, part in (("", spec), *((key, spec[key]) for key in ("scaleTargetRef", "fallback", "advanced") if key in spec),
                           *(("triggers", trigger) for trigger in spec["triggers"]),
                           *(("metadata", trigger["metadata"]) for trigger in spec["triggers"])):
            for field in part.keys() - SCALED_OBJECT[path]:
                yield f"ScaledObject {name}: {path or 'spec'} has no field {field}, or SCALED_OBJECT in check_manifests.py lacks it"
        target = manifests.named("Deployment", spec["scaleTargetRef"]["name"])
        if not target:
            yield f"ScaledObject {name}: there is no Deployment {spec['scaleTargetRef']['name']}"
        elif "replicas" in target["spec"]:
            yield f"ScaledObject {name}: its Deployment names a number of replicas; each apply would undo what KEDA did"
        if not 1 <= spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]:
            yield f"ScaledObject {name}: expected 1 <= minReplicaCount <= fallback.replicas <= maxReplicaCount"
        for trigger in spec["triggers"]:
            metadata = trigger["metadata"]
            for series in re.findall(r"push:\w+", metadata["query"]) or ["none"]:
                if series not in recorded:
                    yield f"ScaledObject {name}: deploy/monitoring/rules/scaling.yml records no {series}"
            if trigger["type"] != "prometheus" or trigger.get("metricType") != "Value" or metadata.get("ignoreNullValues") != "false":
                yield f"ScaledObject {name}: expected a prometheus trigger with metricType Value and ignoreNullValues false"
            if not isinstance(metadata["threshold"], str):
                yield f"ScaledObject {name}: KEDA reads threshold as a text"


CHECKS = [
    check_accounts, check_security, check_resources, check_availability, check_end, check_settings, check_images, check_network,
    check_flows, check_operations, check_traces, check_services, check_namespace, check_guide, check_scaling,
]


def faults(manifests):
    return [fault for check in CHECKS for fault in check(manifests)]


def main():
    number = 0
    for path in sys.argv[1:]:
        manifests = Manifests.of_file(path)
        for fault in faults(manifests):
            number += 1
            print(f"    {path}: {fault}", file=sys.stderr)
    if number:
        print(f"check_manifests.py: {number} faults", file=sys.stderr)
        sys.exit(1)
    print(f"{len(CHECKS)} checks of {len(sys.argv) - 1} renderings")


if __name__ == "__main__":
    main()
