package tables

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/resource"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage/memory"
	"flyball.dev/test/mirror/random"

	_ "flyball.dev/test/mirror/install"
)

// ours returns the resources of our built-in kinds.
var ours = sync.OnceValues(func() ([]*resource.Resource, error) {
	allow := authorizerfactory.NewAlwaysAllowAuthorizer()
	return kinds.Resources(kinds.Options{
		Scheme:        builtin.Scheme(),
		Codecs:        builtin.Codecs(),
		Storage:       store.RESTOptions(store.Options{Storage: memory.New(memory.Options{}), Codec: builtin.StorageCodec}),
		TypeConverter: kindschema.TypeConverter(builtin.Scheme()),
		Authorizer:    allow,
	}, builtin.All(builtin.Options{Authorizer: allow}))
})

// stored returns the resources that have a storage of their own.
func stored(t *testing.T) map[string]*resource.Resource {
	t.Helper()
	list, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*resource.Resource{}
	for _, r := range list {
		if registryOf(r.Storage) != nil && r.Kind.Group != "apiregistration.k8s.io" && r.Kind.Group != "events.k8s.io" {
			all[r.GroupVersionResource().String()] = r
		}
	}
	return all
}

// registryOf returns the registry behind a storage, or nil.
func registryOf(s rest.Storage) *registry.Store {
	switch s := s.(type) {
	case *registry.Store:
		return s
	case interface{ Registry() *registry.Store }:
		return s.Registry()
	}
	return nil
}

// generate returns an object of a kind with Kubernetes's defaults, in both internal versions, or nil if a default panics on it.
func generate(s *random.Source, r *resource.Resource) (mine, theirs runtime.Object) {
	defer func() {
		if recover() != nil {
			mine, theirs = nil, nil
		}
	}()
	s.Values = words
	obj, err := builtin.Scheme().New(r.Kind)
	if err != nil {
		panic(err)
	}
	s.Fill(obj)
	if r.Namespaced {
		obj.(metav1.Object).SetNamespace("default")
	}
	if secret, ok := obj.(*corev1.Secret); ok {
		secret.StringData = nil // writes have moved it
	}
	if job, ok := obj.(*batchv1.Job); ok { // a job has each condition once
		c := job.Status.Conditions
		slices.SortFunc(c, func(a, b batchv1.JobCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
		job.Status.Conditions = slices.CompactFunc(c, func(a, b batchv1.JobCondition) bool { return a.Type == b.Type })
	}
	legacyscheme.Scheme.Default(obj)
	if theirs, err = legacyscheme.Scheme.ConvertToVersion(obj.DeepCopyObject(), hub(r)); err != nil {
		return nil, nil
	}
	if mine, err = r.Scope.Convertor.ConvertToVersion(obj.DeepCopyObject(), r.Scope.HubGroupVersion); err != nil {
		return nil, nil
	}
	return mine, theirs
}

func hub(r *resource.Resource) schema.GroupVersion {
	group := r.Kind.Group
	if group == "events.k8s.io" {
		group = ""
	}
	return schema.GroupVersion{Group: group, Version: runtime.APIVersionInternal}
}

// unprinted are the resources with a printer that their registry does not use:
// pkg/registry/storage/csistoragecapacity/storage.NewStorage has the default table.
var unprinted = map[schema.GroupResource]bool{{Group: "storage.k8s.io", Resource: "csistoragecapacities"}: true}

// TestTables compares the columns and the cells of objects.
func TestTables(t *testing.T) {
	upstream := printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(internalversion.AddHandlers)}
	for name, r := range stored(t) {
		t.Run(name, func(t *testing.T) {
			cells, compared := map[string]map[string]bool{}, 0
			n := 300
			if r.Kind.Kind == "Pod" {
				n = 2000 // its states are the most
			}
			random.Compare(t, n, func(s *random.Source) {
				mine, other := generate(s, r)
				if mine == nil {
					return
				}
				named := r.GroupVersionResource().GroupResource()
				standard := rest.NewDefaultTableConvertor(named)
				want, wantErr := tableOf(upstream, other)
				if unprinted[named] || wantErr != nil && !strings.HasPrefix(wantErr.Error(), "panic") { // it has no printer
					want, wantErr = tableOf(standard, other)
				}
				got, err := tableOf(registryOf(r.Storage), mine)
				if wantErr != nil {
					return // Kubernetes's printer has panicked
				}
				if err != nil {
					t.Fatal(err)
				}
				compareTables(t, got, want)
				compared++
				for i, c := range want.ColumnDefinitions {
					if cells[c.Name] == nil {
						cells[c.Name] = map[string]bool{}
					}
					cells[c.Name][fmt.Sprint(want.Rows[0].Cells[i])] = true
				}
			})
			for column, values := range cells {
				if len(values) < 2 {
					t.Errorf("all objects have the same %s: %v", column, values)
				}
			}
			if compared < n/2 { // the others make a default or Kubernetes's printer panic
				t.Errorf("%d of %d objects are compared", compared, n)
			}
			if r.Kind.Kind == "Pod" {
				for _, status := range podStates {
					if !cells["Status"][status] {
						t.Errorf("no pod is %s", status)
					}
				}
			}
		})
	}
}

// podStates are states of pods that TestTables must have seen.
var podStates = []string{"Completed", "Error", "NotReady", "Running", "Terminating", "Unknown", "SchedulingGated", "Init:Error"}

func tableOf(c rest.TableConvertor, obj runtime.Object) (table *metav1.Table, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.ConvertToTable(context.Background(), obj, nil)
}

// compareTables compares tables of one row, without the descriptions of columns, which are our own.
func compareTables(t *testing.T, ours, theirs *metav1.Table) {
	t.Helper()
	for _, table := range []*metav1.Table{ours, theirs} {
		table.ColumnDefinitions = slices.Clone(table.ColumnDefinitions)
		for i := range table.ColumnDefinitions {
			table.ColumnDefinitions[i].Description = ""
		}
	}
	if !equality.Semantic.DeepEqual(ours.ColumnDefinitions, theirs.ColumnDefinitions) {
		t.Fatalf("columns:\nours   %v\ntheirs %v", ours.ColumnDefinitions, theirs.ColumnDefinitions)
	}
	if columns := len(theirs.ColumnDefinitions); len(theirs.Rows[0].Cells) > columns {
		theirs.Rows[0].Cells = theirs.Rows[0].Cells[:columns] // an IPAddress has an age without a column
	}
	if a, b := ours.Rows[0].Cells, theirs.Rows[0].Cells; len(a) != len(b) {
		t.Fatalf("cells:\nours   %v\ntheirs %v", a, b)
	}
	for i, want := range theirs.Rows[0].Cells {
		if got := ours.Rows[0].Cells[i]; text(got) != text(want) {
			t.Errorf("%s: ours %T %q, theirs %T %q", theirs.ColumnDefinitions[i].Name, got, text(got), want, text(want))
		}
	}
}

// text returns a cell as it is sent.
func text(cell any) string {
	if s, ok := cell.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimSpace(fmt.Sprint(cell))
}

// words are the values of strings: besides others, the reasons, phases and types that the printers of Kubernetes compare with.
var words = map[string][]string{
	"v1.FlowSchemaConditionType":    {"Dangling"},
	"v1.ServiceType":                {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
	"v1.Protocol":                   {"TCP", "UDP"},
	"Kind":                          {"Pod", "ReplicaSet", "User", "Group", "ServiceAccount"},
	"v1.ResourceName":               {"cpu", "memory", "storage", "limits.cpu", "requests.cpu", "pods"},
	"ExternalIPs":                   {"10.0.0.1", "10.0.0.2"},
	"Labels":                        {"node-role.kubernetes.io/a", "kubernetes.io/role", "a"},
	"Type":                          {"Issued", "Denied", "Failed", "Running", "Succeeded", "Ready"},
	"Reason":                        {"", "Completed", "Completed", "Error", "PodInitializing", "SchedulingGated", "NodeLost", "a"},
	"APIVersion":                    {"v1", "apps/v1"},
	"v1.PodPhase":                   {"Pending", "Running", "Succeeded", "Failed"},
	"v1.ConditionStatus":            {"True", "False", "Unknown"},
	"v1.PodConditionType":           {"Ready", "PodScheduled", "Initialized"},
	"v1.NodeConditionType":          {"Ready", "MemoryPressure"},
	"v1.JobConditionType":           {"Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"},
	"v1.RequestConditionType":       {"Approved", "Denied", "Failed"},
	"v1.ContainerRestartPolicy":     {"Always", "Never"},
	"v1.PersistentVolumeMode":       {"Filesystem", "Block"},
	"v1.PersistentVolumeAccessMode": {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
	"v1.LabelSelectorOperator":      {"In", "Exists"},
	"v1.NodeAddressType":            {"InternalIP", "ExternalIP", "Hostname"},
	"v2.MetricSourceType":           {"Resource", "Pods", "Object", "External", "ContainerResource"},
}
