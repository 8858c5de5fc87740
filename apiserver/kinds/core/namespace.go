package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// Namespaces describes the kind Namespace. A namespace is deleted in two phases.
//
//upstream:pkg/registry/core/namespace.namespaceStrategy
//upstream:pkg/registry/core/namespace.namespaceStatusStrategy
//upstream:pkg/registry/core/namespace.NamespaceToSelectableFields
//upstream:pkg/registry/core/namespace/storage.REST
//upstream:pkg/registry/core/namespace/storage.ShouldDeleteNamespaceDuringUpdate
//upstream:pkg/apis/core/v1.AddFieldLabelConversionsForNamespace
//upstream:pkg/printers/internalversion.printNamespace
func Namespaces() kinds.Kind {
	return kinds.Of[*corev1.Namespace]{
		Type: &corev1.Namespace{}, List: &corev1.NamespaceList{},
		Plural: "namespaces", ShortNames: []string{"ns"}, Cluster: true,
		Name:           fieldrules.NameIsLabel,
		Default:        defaultNamespace,
		Prepare:        prepareNamespace,
		Validate:       namespaceFinalizers,
		Status:         true,
		ValidateStatus: validateNamespaceStatus,
		Terminate:      TerminateNamespace,
		DeletesOnUpdate: func(n, _ *corev1.Namespace) bool {
			return len(n.Spec.Finalizers) == 0
		},
		Columns: []metav1.TableColumnDefinition{columns.Column("Status", "string",
			"Whether the namespace is in use or on its way out.")},
		Row: func(n *corev1.Namespace) []any { return []any{string(n.Status.Phase)} },
		Fields: func(n *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(n.Status.Phase)}
		},
		More: func(s kinds.Stored[*corev1.Namespace]) map[string]rest.Storage {
			return map[string]rest.Storage{"finalize": &finalizeREST{s}}
		},
	}
}

// defaultNamespace sets the phase, and the label with the name of the namespace.
//
//upstream:pkg/apis/core/v1.SetDefaults_Namespace
//upstream:pkg/apis/core/v1.SetDefaults_NamespaceStatus
func defaultNamespace(n *corev1.Namespace) {
	fieldrules.DefaultValue(&n.Status.Phase, corev1.NamespaceActive)
	if n.Name == "" || n.Labels[corev1.LabelMetadataName] == n.Name {
		return
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// prepareNamespace adds the finalizer kubernetes to a new namespace. An update keeps the finalizers in
// the spec.
//
//upstream:pkg/registry/core/namespace.namespaceStrategy.PrepareForCreate
//upstream:pkg/registry/core/namespace.namespaceStrategy.PrepareForUpdate
func prepareNamespace(_ context.Context, n, old *corev1.Namespace) {
	if old != nil {
		n.Spec.Finalizers = old.Spec.Finalizers
		return
	}
	n.Status.Phase = corev1.NamespaceActive
	defaultNamespace(n)
	if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
		n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// namespaceFinalizers checks the finalizers in the spec.
//
//upstream:pkg/apis/core/validation.ValidateNamespace
//upstream:pkg/apis/core/validation.validateFinalizerName
//upstream:pkg/apis/core/validation.validateKubeFinalizerName
func namespaceFinalizers(n *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for _, f := range n.Spec.Finalizers {
		errs = append(errs, namespaceFinalizer(string(f), fieldrules.Spec.ChildField("finalizers"))...)
	}
	return errs
}

func namespaceFinalizer(name string, at *field.Path) field.ErrorList {
	errs := apivalidation.ValidateFinalizerName(name, at)
	if !strings.Contains(name, "/") && !slices.Contains(fieldrules.StandardFinalizers, name) {
		errs = append(errs, field.Invalid(at, name, fieldrules.UnknownFinalizer))
	}
	return errs
}

// validateNamespaceStatus checks that the phase is Terminating if and only if the namespace is being
// deleted.
//
//upstream:pkg/apis/core/validation.ValidateNamespaceStatusUpdate
func validateNamespaceStatus(n, _ *corev1.Namespace) field.ErrorList {
	want := corev1.NamespaceActive
	if !n.DeletionTimestamp.IsZero() {
		want = corev1.NamespaceTerminating
	}
	if n.Status.Phase == want {
		return nil
	}
	message := "may only be 'Active' if `deletionTimestamp` is empty"
	if !n.DeletionTimestamp.IsZero() {
		message = "may only be 'Terminating' if `deletionTimestamp` is not empty"
	}
	return field.ErrorList{field.Invalid(fieldrules.Status.ChildField("Phase"), n.Status.Phase, message)}
}

// TerminateNamespace is the first phase of the deletion of a namespace. It sets the phase Terminating
// and reports whether a second phase follows, which deletes the content and removes the finalizers in
// the spec.
//
//upstream:pkg/registry/core/namespace/storage.REST.Delete
func TerminateNamespace(n *corev1.Namespace) bool {
	if n.DeletionTimestamp == nil {
		if len(n.Spec.Finalizers) == 0 && len(n.Finalizers) == 0 {
			return false
		}
		n.Status.Phase = corev1.NamespaceTerminating
		return true
	}
	return len(n.Spec.Finalizers) > 0
}

// finalizeREST is the subresource namespaces/finalize, which sets the finalizers in the spec.
//
//upstream:pkg/registry/core/namespace/storage.FinalizeREST
type finalizeREST struct {
	namespaces kinds.Stored[*corev1.Namespace]
}

var (
	_ rest.Updater             = (*finalizeREST)(nil)
	_ rest.ResetFieldsStrategy = (*finalizeREST)(nil)
)

// GetResetFields implements [rest.ResetFieldsStrategy].
//
//upstream:pkg/registry/core/namespace.namespaceFinalizeStrategy.GetResetFields
func (r *finalizeREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{"v1": fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
}

func (r *finalizeREST) New() runtime.Object { return &corev1.Namespace{} }
func (r *finalizeREST) Destroy()            {}

// Update sets the metadata and the finalizers in the spec. It removes a terminating namespace that has
// no finalizers.
//
//upstream:pkg/registry/core/namespace/storage.FinalizeREST.Update
//upstream:pkg/registry/core/namespace.namespaceFinalizeStrategy
//upstream:pkg/apis/core/validation.ValidateNamespaceFinalizeUpdate
func (r *finalizeREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := r.namespaces.Update(ctx, name, options.DryRun, func(n *corev1.Namespace) error {
		old := n.DeepCopy()
		wanted, err := info.UpdatedObject(ctx, old)
		if err != nil {
			return err
		}
		w, ok := wanted.(*corev1.Namespace)
		if !ok {
			return errors.NewBadRequest(fmt.Sprintf("not a Namespace: %T", wanted))
		}
		if w.ResourceVersion != "" && w.ResourceVersion != old.ResourceVersion {
			return errors.NewConflict(corev1.Resource("namespaces"), name,
				fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
		}
		if w.UID != "" && w.UID != old.UID {
			//lint:ignore ST1005 clients know this text of kube-apiserver
			err := fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", w.UID, old.UID)
			return errors.NewConflict(corev1.Resource("namespaces"), name, err)
		}
		n.ObjectMeta, n.Spec = *w.ObjectMeta.DeepCopy(), *w.Spec.DeepCopy()
		keepSystemMetadata(&n.ObjectMeta, &old.ObjectMeta)
		errs := apivalidation.ValidateObjectMetaAccessorUpdate(n, old, field.NewPath("metadata"))
		for i, f := range n.Spec.Finalizers {
			errs = append(errs, namespaceFinalizer(string(f), fieldrules.Spec.ChildField("finalizers").Index(i))...)
		}
		if len(errs) > 0 {
			return errors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(), name, errs)
		}
		if validate == nil {
			return nil
		}
		return validate(ctx, n.DeepCopy(), old)
	})
	return obj, false, err
}

// keepSystemMetadata keeps the metadata that no update changes.
//
//upstream:k8s.io/apiserver/pkg/registry/rest.BeforeUpdate
func keepSystemMetadata(m, old *metav1.ObjectMeta) {
	m.ResourceVersion, m.Generation, m.CreationTimestamp = old.ResourceVersion, old.Generation, old.CreationTimestamp
	if m.UID == "" {
		m.UID = old.UID
	}
	if old.DeletionTimestamp != nil {
		m.DeletionTimestamp = old.DeletionTimestamp
	}
	if m.DeletionGracePeriodSeconds == nil {
		m.DeletionGracePeriodSeconds = old.DeletionGracePeriodSeconds
	}
}
