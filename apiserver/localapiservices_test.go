package apiserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/storage/memory"
)

// served has the cluster-scoped objects of a server in a bubble.
type served struct {
	*objects
	t *testing.T
}

// own returns the context of a user who may do everything.
func own() context.Context {
	ctx := request.WithUser(context.Background(), &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	return request.WithNamespace(ctx, metav1.NamespaceNone)
}

// get returns an object when the server has come to rest, without time having passed, or nil.
func (k *served) get(gvr schema.GroupVersionResource, name string) kinds.Object {
	k.t.Helper()
	synctest.Wait()
	obj, err := k.Storage(gvr).(rest.Getter).Get(own(), name, &metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return obj.(kinds.Object)
}

func (k *served) change(gvr schema.GroupVersionResource, name string, change func(runtime.Object)) {
	k.t.Helper()
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		obj := old.DeepCopyObject()
		change(obj)
		return obj, nil
	})
	if _, _, err := k.Storage(gvr).(rest.Updater).Update(own(), name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc,
		false, &metav1.UpdateOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

func (k *served) delete(gvr schema.GroupVersionResource, name string) {
	k.t.Helper()
	if _, _, err := k.Storage(gvr).(rest.GracefulDeleter).Delete(own(), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

// TestLocalAPIServicesAreKept checks that the server registers the APIServices of built-in groups once, and restores
// the APIServices of custom resources and their specs at once.
func TestLocalAPIServicesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := memory.New(memory.Options{})
		defer storage.Close()
		s, err := New(Options{Storage: storage, Authentication: authn.Config{}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		k := &served{s.objects, t}
		apiServices := apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")
		synctest.Wait()
		k.delete(apiServices, "v1.apps")
		k.change(apiServices, "v1.batch", func(obj runtime.Object) {
			obj.(*apiregistrationv1.APIService).Spec.VersionPriority = 3
		})
		<-time.After(time.Hour)
		if k.get(apiServices, "v1.apps") != nil || k.get(apiServices, "v1.batch").(*apiregistrationv1.APIService).Spec.VersionPriority != 3 {
			t.Error("APIServices of built-in groups were registered again")
		}

		definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
		definition := &apiextensions.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
			Spec: apiextensions.CustomResourceDefinitionSpec{Group: "example.com", Version: "v1", Scope: apiextensions.NamespaceScoped,
				Names:                 apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
				Versions:              []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
				Validation:            &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object"}},
				Conversion:            &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
				PreserveUnknownFields: new(bool)},
		}
		if _, err := k.Storage(definitions).(rest.Creater).Create(own(), definition, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		const name = "v1.example.com"
		before := k.get(apiServices, name)
		if before == nil {
			t.Fatal("the group has no APIService")
		}
		k.delete(apiServices, name)
		after := k.get(apiServices, name)
		if after == nil || after.GetUID() == before.GetUID() {
			t.Fatalf("the APIService is %v after its deletion", after)
		}
		k.change(apiServices, name, func(obj runtime.Object) {
			obj.(*apiregistrationv1.APIService).Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "default", Name: "mine", Port: new(int32(443))}
		})
		is := k.get(apiServices, name).(*apiregistrationv1.APIService)
		if is.Spec.Service != nil || len(is.Status.Conditions) != 1 || is.Status.Conditions[0].Reason != "Local" {
			t.Errorf("the APIService is %+v after a change of its spec", is)
		}
		k.change(apiServices, name, func(obj runtime.Object) { obj.(*apiregistrationv1.APIService).Labels = nil })
		k.delete(definitions, "widgets.example.com")
		if k.get(apiServices, name) == nil {
			t.Error("an APIService without the label was deleted")
		}
	})
}
