// Package podtemplate identifies the templates of pods in the revisions of workloads.
package podtemplate

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// Hash returns the hash of a template. It depends on the collision count, unless that is nil.
//
//upstream:pkg/controller.ComputeHash
func Hash(t *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	h.Write([]byte(dump.ForHash(*t)))
	if collisions != nil {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(uint32(*collisions))))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// Patch returns the data of the ControllerRevision of a template: a strategic merge patch that restores the template in
// its DaemonSet or StatefulSet. kubectl compares it byte by byte.
//
//upstream:pkg/controller/daemon.getPatch
//upstream:pkg/controller/statefulset.getPatch
func Patch(t *corev1.PodTemplateSpec) ([]byte, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	template := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a float64 does not have all integers
	if err := decoder.Decode(&template); err != nil {
		return nil, err
	}
	template["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
}
