package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trainingv1 "flyball.dev/examples/training/api/v1"
)

// The labels of the Pods. All Pods of TrainingJobs have JobLabel: the cache needs no others.
const (
	JobLabel   = "training.example.com/job"
	roleLabel  = "training.example.com/role"
	indexLabel = "training.example.com/index"
)

// The roles of Pods, as TensorFlow calls them.
const (
	roleWorker          = "worker"
	roleParameterServer = "ps"
)

// port is where the Pods listen.
const port = 2222

// member is a worker or a parameter server.
type member struct {
	role  string
	index int32
}

// membersOf returns the members of a TrainingJob, parameter servers first.
func membersOf(spec *trainingv1.TrainingJobSpec) []member {
	var all []member
	for i := range spec.ParameterServers {
		all = append(all, member{roleParameterServer, i})
	}
	for i := range spec.Workers {
		all = append(all, member{roleWorker, i})
	}
	return all
}

// podName returns the name of all Pods of a member. There is one of them at a time.
func (m member) podName(job *trainingv1.TrainingJob) string {
	return fmt.Sprintf("%s-%s-%d", job.Name, m.role, m.index)
}

// newPod returns the Pod of a member, without an owner. Its container is not restarted by the kubelet:
// that is what the TrainingJob decides.
func newPod(job *trainingv1.TrainingJob, m member) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace,
			Name:      m.podName(job),
			Labels:    map[string]string{JobLabel: job.Name, roleLabel: m.role, indexLabel: strconv.Itoa(int(m.index))},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Hostname:      m.podName(job),
			Subdomain:     job.Name,
			NodeSelector:  job.Spec.NodeSelector,
			Containers: []corev1.Container{{
				Name:  "training",
				Image: job.Spec.Image,
				Env:   []corev1.EnvVar{{Name: "TF_CONFIG", Value: tensorFlowConfig(job, m)}},
				Ports: []corev1.ContainerPort{{Name: "training", ContainerPort: port}},
			}},
		},
	}
	if m.role == roleWorker {
		pod.Annotations = maps.Clone(job.Spec.WorkerAnnotations)
	}
	return pod
}

// tensorFlowConfig returns what a member has to know about the others, as TensorFlow reads it: their
// addresses, which stay the same when Pods are replaced.
func tensorFlowConfig(job *trainingv1.TrainingJob, m member) string {
	cluster := map[string][]string{}
	for _, other := range membersOf(&job.Spec) {
		address := fmt.Sprintf("%s.%s.%s.svc:%d", other.podName(job), job.Name, job.Namespace, port)
		cluster[other.role] = append(cluster[other.role], address)
	}
	config, _ := json.Marshal(map[string]any{ // strings and numbers can be marshalled
		"cluster": cluster,
		"task":    map[string]any{"type": m.role, "index": m.index},
	})
	return string(config)
}
