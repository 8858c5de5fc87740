package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"flyball.dev/record"
)

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	nodes       = schema.GroupResource{Resource: "nodes"}
	configMaps  = schema.GroupResource{Resource: "configmaps"}
	apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	webhooks    = []schema.GroupResource{
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	}
)

// source is the state that a fork begins with: a moment without what the fork cannot have.
type source struct {
	*record.Moment
	allowNet bool
	unknown  []Unknown
}

// newSource prepares a moment, which stays as it is.
func newSource(m *record.Moment, allowNet bool) (*source, error) {
	copied := *m
	copied.Objects = maps.Clone(m.Objects)
	s := &source{Moment: &copied, allowNet: allowNet}
	for _, r := range slices.SortedFunc(maps.Keys(m.Incomplete), compareResources) {
		s.unknown = append(s.unknown, Unknown{r.String(), "it could not be read: " + m.Incomplete[r]})
	}
	for _, field := range m.Header.Redacted {
		s.unknown = append(s.unknown, Unknown{field, "the values are redacted in the recording"})
	}
	s.addOwners()
	for _, key := range slices.SortedFunc(maps.Keys(s.Objects), compareKeys) {
		var err error
		switch r := key.GroupResource(); {
		case slices.Contains(webhooks, r):
			err = s.edit(key, s.openWebhooks)
		case r == definitions:
			err = s.edit(key, s.checkConversion)
		case r == apiServices:
			err = s.edit(key, s.dropService)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return s, nil
}

func compareResources(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }

func compareKeys(a, b record.Key) int { return strings.Compare(a.String(), b.String()) }

// edit changes an object of the moment. The function reports whether it has, and may remove the object.
func (s *source) edit(key record.Key, change func(record.Key, *unstructured.Unstructured) bool) error {
	var o unstructured.Unstructured
	if err := utiljson.Unmarshal(s.Objects[key], &o.Object); err != nil {
		return err
	}
	if !change(key, &o) {
		return nil
	}
	if o.Object == nil {
		delete(s.Objects, key)
		return nil
	}
	content, err := json.Marshal(o.Object)
	s.Objects[key] = content
	return err
}

// openWebhooks makes the webhooks that nobody can reach from here match nothing.
func (s *source) openWebhooks(key record.Key, o *unstructured.Unstructured) (changed bool) {
	list, _ := o.Object["webhooks"].([]any)
	for _, element := range list {
		webhook, _ := element.(map[string]any)
		config, _ := webhook["clientConfig"].(map[string]any)
		if webhook == nil || s.reaches(config) {
			continue
		}
		conditions, _ := webhook["matchConditions"].([]any)
		webhook["matchConditions"] = append(slices.Clone(conditions), map[string]any{"name": "reachable-from-the-plan", "expression": "false"})
		changed = true
		s.unknown = append(s.unknown, Unknown{fmt.Sprintf("webhook %v of %s", webhook["name"], key),
			"it is not called: what it would refuse or change is missing"})
	}
	return changed
}

// reaches reports whether the plan may call a webhook: one with a URL, if the net is allowed.
func (s *source) reaches(config map[string]any) bool {
	text, _ := config["url"].(string)
	return text != "" && s.allowNet
}

// checkConversion notes a definition with a conversion that nobody can call from here.
func (s *source) checkConversion(_ record.Key, o *unstructured.Unstructured) bool {
	config, found, _ := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook", "clientConfig")
	if found && !s.reaches(config) {
		s.unknown = append(s.unknown, Unknown{"conversion of " + o.GetName(), "its webhook is not called: objects can be read and written in their stored version only"})
	}
	return false
}

// dropService leaves out an APIService of an extension API server.
func (s *source) dropService(_ record.Key, o *unstructured.Unstructured) bool {
	if _, remote, _ := unstructured.NestedMap(o.Object, "spec", "service"); !remote {
		return false
	}
	s.unknown = append(s.unknown, Unknown{"API " + o.GetName(), "an extension API server serves it, which is not part of the fork"})
	o.Object = nil
	return true
}

// addOwners adds what other objects refer to, and could not be read: namespaces, and owners. Without them, controllers would
// take the others for orphans, and delete them.
func (s *source) addOwners() {
	if len(s.Incomplete) == 0 {
		return
	}
	incomplete := map[schema.GroupKind]*record.Resource{}
	for r := range s.Incomplete {
		if resource := s.Resources[r]; resource != nil {
			incomplete[schema.GroupKind{Group: resource.Group, Kind: resource.Kind}] = resource
		}
	}
	for key, content := range maps.Clone(s.Objects) {
		var meta metav1.PartialObjectMetadata
		if json.Unmarshal(content, &meta) != nil {
			continue // restoring it reports the error
		}
		if r := incomplete[schema.GroupKind{Kind: "Namespace"}]; r != nil && key.Namespace != "" {
			s.add(r, "", key.Namespace, "")
		}
		for _, owner := range meta.OwnerReferences {
			gv, _ := schema.ParseGroupVersion(owner.APIVersion)
			r := incomplete[schema.GroupKind{Group: gv.Group, Kind: owner.Kind}]
			switch {
			case r == nil:
			case r.Namespaced:
				s.add(r, key.Namespace, owner.Name, string(owner.UID))
			default:
				s.add(r, "", owner.Name, string(owner.UID))
			}
		}
	}
}

// add adds an object with an identity and nothing else, unless it is there.
func (s *source) add(r *record.Resource, namespace, name, uid string) {
	key := record.Key{Group: r.Group, Resource: r.Name, Namespace: namespace, Name: name}
	if _, known := s.Objects[key]; known {
		return
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind}}
	o.SetName(name)
	o.SetNamespace(namespace)
	o.SetUID("00000000-0000-0000-0000-000000000000")
	if uid != "" {
		o.Object["metadata"].(map[string]any)["uid"] = uid
	}
	o.SetResourceVersion("1")
	if key.GroupResource() == namespaces {
		o.Object["status"] = map[string]any{"phase": "Active"}
	}
	content, _ := json.Marshal(o.Object) // it has strings
	s.Objects[key] = content
	if key.GroupResource() != namespaces {
		s.unknown = append(s.unknown, Unknown{key.String(), "it is known by its dependents only"})
	}
}

// rootCA returns the certificate authority that the cluster publishes, or nil.
func (s *source) rootCA() []byte {
	var o struct{ Data map[string]string }
	content := s.Objects[record.Key{Resource: configMaps.Resource, Namespace: metav1.NamespaceDefault, Name: "kube-root-ca.crt"}]
	if json.Unmarshal(content, &o) != nil || o.Data["ca.crt"] == "" {
		return nil
	}
	return []byte(o.Data["ca.crt"])
}

// hasNodes reports whether the cluster has a node.
func (s *source) hasNodes() bool {
	for key := range s.Objects {
		if key.GroupResource() == nodes {
			return true
		}
	}
	return false
}

// isLoopback reports whether an address is one of this machine's loopback interface.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
