package builtin

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"flyball.dev/apiserver/kinds/batch"
)

const deploymentManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
`

func TestDeploymentValidation(t *testing.T) {
	invalidWhen(t, deploymentManifest, map[string]change{
		"other labels": {`spec: {template: {metadata: {labels: {app: other}}}}`, []string{
			"spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`"}},
		"no selector":    {`spec: {selector: null}`, []string{"spec.selector: Required value", "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		"empty selector": {`spec: {selector: {matchLabels: null}}`, []string{"spec.selector: Invalid value: {}: empty selector is invalid for deployment"}},
		"bad selector": {`spec: {selector: {matchExpressions: [{key: a, operator: Near}]}}`, []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`,
			`spec.selector: Invalid value: …`}},
		"replicas":       {`spec: {replicas: -1}`, []string{"spec.replicas: Invalid value: -1: must be greater than or equal to 0"}},
		"no containers":  {`spec: {template: {spec: {containers: []}}}`, []string{"spec.template.spec.containers: Required value"}},
		"restart policy": {`spec: {template: {spec: {restartPolicy: Never}}}`, []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		"deadline": {`spec: {template: {spec: {activeDeadlineSeconds: 3}}}`, []string{
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"}},
		"strategy": {`spec: {strategy: {type: Hope}}`, []string{`spec.strategy: Unsupported value: {"Type":"Hope","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"`}},
		"recreate with parameters": {`spec: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}`, []string{
			"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
		"stuck": {`spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}}`, []string{
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: …"}},
		"percentage": {`spec: {strategy: {rollingUpdate: {maxSurge: much, maxUnavailable: 120%}}}`, []string{
			"spec.strategy.rollingUpdate.maxSurge: Invalid value: …", "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: …"}},
		"progress": {`spec: {minReadySeconds: 60, progressDeadlineSeconds: 60}`, []string{
			"spec.progressDeadlineSeconds: Invalid value: 60: must be greater than minReadySeconds"}},
		"labels": {`spec: {template: {metadata: {labels: {"a b": c}}}}`, []string{`spec.template.labels: Invalid value: "a b": name part must consist of…`}},
	})
	forbiddenWhen(t, deploymentManifest, map[string]change{
		"selector": {`spec: {selector: {matchLabels: {tier: a}}, template: {metadata: {labels: {tier: a}}}}`, []string{
			`spec.selector: Invalid value: {"matchLabels":{"app":"web","tier":"a"}}: field is immutable`}},
		"image": {`spec: {template: {spec: {containers: [{name: web, image: "nginx:2"}]}}}`, nil},
	})
}

func TestDeploymentStatus(t *testing.T) {
	old := read(t, deploymentManifest).(*appsv1.Deployment)
	old.Status.CollisionCount = new(int32(2))
	d := old.DeepCopy()
	d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 2, AvailableReplicas: -1, CollisionCount: new(int32(1))}
	compareMessages(t, []string{
		"status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.collisionCount: Invalid value: 1: cannot be decremented",
		"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
	}, messages(describeKindOf(t, d).errors("ValidateStatus", d, old)))
}

func TestOtherWorkloads(t *testing.T) {
	replicaSet := patched(t, deploymentManifest, `{kind: ReplicaSet, spec: {replicas: 2}}`)
	invalidWhen(t, replicaSet, map[string]change{
		"other labels": {`spec: {template: {metadata: {labels: null}}}`, []string{"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"}},
	})
	forbiddenWhen(t, replicaSet, map[string]change{
		"selector": {`spec: {selector: {matchLabels: {tier: a}}, template: {metadata: {labels: {tier: a}}}}`, []string{"spec.selector: Invalid value: …"}},
	})
	stateful := patched(t, deploymentManifest, `{kind: StatefulSet, spec: {serviceName: web, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], template: {spec: {containers: [{name: web, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}]}}}}`)
	invalidWhen(t, stateful, map[string]change{
		"policy":    {`spec: {podManagementPolicy: Chaos}`, []string{`spec.podManagementPolicy: Invalid value: "Chaos": must be 'OrderedReady' or 'Parallel'`}},
		"deadline":  {`spec: {template: {spec: {activeDeadlineSeconds: 3}}}`, []string{"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported"}},
		"partition": {`spec: {updateStrategy: {rollingUpdate: {partition: -1}}}`, []string{`spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0`}},
	})
	forbiddenWhen(t, stateful, map[string]change{
		"replicas": {`spec: {replicas: 3}`, nil},
		"service":  {`spec: {serviceName: other}`, []string{`spec.serviceName: Invalid value: "other": field is immutable`}},
		"policy":   {`spec: {podManagementPolicy: Parallel}`, []string{`spec.podManagementPolicy: Invalid value: "Parallel": field is immutable`}},
		"claims":   {`spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}]}`, []string{"spec.volumeClaimTemplates: Invalid value: …"}},
		"selector": {`spec: {selector: {matchLabels: {tier: a}}, template: {metadata: {labels: {tier: a}}}}`, []string{"spec.selector: Invalid value: …"}},
	})
	daemon := patched(t, deploymentManifest, `kind: DaemonSet`)
	invalidWhen(t, daemon, map[string]change{
		"both":    {`spec: {updateStrategy: {rollingUpdate: {maxSurge: 1}}}`, []string{"spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: …"}},
		"neither": {`spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 0}}}`, []string{"spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"}},
	})
}

func TestJobs(t *testing.T) {
	const manifest = `
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {manualSelector: true, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
`
	invalidWhen(t, manifest, map[string]change{
		"always":   {`spec: {template: {spec: {restartPolicy: null}}}`, []string{`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`}},
		"indexed":  {`spec: {completionMode: Indexed, parallelism: 2}`, []string{"spec.completions: Required value: when completion mode is Indexed"}},
		"pod name": {`{spec: {completionMode: Indexed, completions: 2}, metadata: {name: on.ce}}`, []string{`metadata.name: Invalid value: "on.ce": will not able to create pod with invalid DNS label: on.ce-1`}},
		"backoff":  {`spec: {backoffLimit: -1}`, []string{"spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"}},
	})
	forbiddenWhen(t, manifest, map[string]change{
		"template":    {`spec: {template: {spec: {containers: [{name: c, image: other}]}}}`, []string{"spec.template: Invalid value: …"}},
		"completions": {`spec: {completions: 3}`, []string{"spec.completions: Invalid value: 3: field is immutable"}},
		"suspend":     {`spec: {suspend: true}`, nil},
	})
	indexed := patched(t, manifest, `spec: {completionMode: Indexed, completions: 2, parallelism: 2}`)
	forbiddenWhen(t, indexed, map[string]change{
		"completions": {`spec: {completions: 3}`, []string{"spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"}},
		"elastic":     {`spec: {completions: 3, parallelism: 3}`, nil},
	})
	forbiddenWhen(t, patched(t, manifest, `spec: {suspend: true}`), map[string]change{
		"node affinity": {`spec: {template: {spec: {affinity: {nodeAffinity: {}}}}}`, nil},
		"pod affinity":  {`spec: {template: {spec: {affinity: {podAffinity: {}}}}}`, []string{"spec.template.spec: Invalid value: …"}},
	})
	job := read(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: once, uid: u1}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}`).(*batchv1.Job)
	batch.PrepareJob(t.Context(), job, nil)
	compareMessages(t, nil, messages(batch.ValidateJob(job, nil)))
	if job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != "u1" || job.Spec.Template.Labels[batchv1.JobNameLabel] != "once" {
		t.Errorf("selector %v, labels %v", job.Spec.Selector, job.Spec.Template.Labels)
	}
}
