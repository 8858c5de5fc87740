package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

const (
	// maxWaiting is the maximum number of waiting objects that an error names.
	maxWaiting = 10
	// explainTimeout limits the time for explaining an error.
	explainTimeout = 5 * time.Second
)

// waitingFor returns an error that names the finalizers that block the deletion of an object, or nil if there are none.
// A definition waits for its objects, so the error names their finalizers, too. ctx may have ended.
func (c *Cluster) waitingFor(ctx context.Context, d *Document) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	objects, _, err := c.resource(ctx, d)
	if err != nil {
		return nil
	}
	current, err := objects.Get(ctx, d.Object.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	waiting := []unstructured.Unstructured{*current}
	if d.definition() {
		waiting = append(c.instances(ctx, current), waiting...)
	}
	var lines []string
	for i := range waiting {
		if line := finalizersOf(&waiting[i]); line != "" {
			lines = append(lines, line)
		}
	}
	if d.definition() && len(lines) > 1 { // the definition waits for its objects, by a finalizer of the API server
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return nil
	}
	if more := len(lines) - maxWaiting; more > 0 {
		lines = append(lines[:maxWaiting], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("these finalizers hold it back:\n  %s\nRun the operator that removes them, or, if nothing is left to clean up, "+
		"remove them with kubectl edit", strings.Join(lines, "\n  "))
}

// instances returns the objects that a definition defines.
func (c *Cluster) instances(ctx context.Context, definition *unstructured.Unstructured) []unstructured.Unstructured {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		name, _ := version["name"].(string)
		list, err := c.client.Resource(schema.GroupVersionResource{Group: group, Version: name, Resource: plural}).List(ctx, metav1.ListOptions{})
		if err == nil {
			return list.Items
		}
	}
	return nil
}

// finalizersOf describes the finalizers of an object and who added them. It returns "" if there are none.
func finalizersOf(o *unstructured.Unstructured) string {
	finalizers := o.GetFinalizers()
	if len(finalizers) == 0 {
		return ""
	}
	for i, f := range finalizers {
		if manager := managerOf(o, f); manager != "" {
			finalizers[i] = fmt.Sprintf("%s (added by %s)", f, manager)
		}
	}
	return fmt.Sprintf("%s %s: %s", o.GetKind(), klog.KObj(o), strings.Join(finalizers, ", "))
}

// managerOf returns the field manager of a finalizer, or "" if no manager owns it.
func managerOf(o *unstructured.Unstructured, finalizer string) string {
	for _, entry := range o.GetManagedFields() {
		var fields struct {
			Metadata struct {
				Finalizers map[string]json.RawMessage `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		quoted, _ := json.Marshal(finalizer) // a string
		if _, ok := fields.Metadata.Finalizers["v:"+string(quoted)]; ok {
			return entry.Manager
		}
	}
	return ""
}
