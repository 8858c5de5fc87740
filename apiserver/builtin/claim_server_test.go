package builtin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const admin = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"

// newClaim returns a claim for a device.
func newClaim(name, namespace string, adminAccess bool) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com", AdminAccess: &adminAccess}}}}}}
}

// newAllocation returns an allocation of two devices on a node.
func newAllocation(adminAccess bool) *resourcev1.AllocationResult {
	result := func(driver string) resourcev1.DeviceRequestAllocationResult {
		return resourcev1.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: "p", Device: "d", AdminAccess: &adminAccess}
	}
	return &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{result("a.example.com"), result("b.example.com")}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}}}}}
}

// TestAdminAccess requests and allocates admin access to devices in a namespace without and with the label that permits it.
func TestAdminAccess(t *testing.T) {
	client := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(startServer(t)))
	must[*corev1.Namespace](t)(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "admins", Labels: map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}}}, metav1.CreateOptions{}))
	for _, namespace := range []string{"default", "admins"} {
		check := func(what string, err error, path string) {
			t.Helper()
			switch {
			case namespace == "admins" && err != nil:
				t.Errorf("%s: %v", what, err)
			case namespace == "default":
				wantError(t, err, metav1.StatusReasonInvalid, path+": Forbidden: "+admin)
			}
		}
		claims := client.ResourceV1().ResourceClaims(namespace)
		claim := newClaim("admin", namespace, true)
		_, err := claims.Create(t.Context(), claim, metav1.CreateOptions{})
		check("claim", err, "spec.devices.requests[0].adminAccess")
		_, err = client.ResourceV1().ResourceClaimTemplates(namespace).Create(t.Context(), &resourcev1.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim.Spec}}, metav1.CreateOptions{})
		check("template", err, "spec.devices.requests[0].adminAccess")
		user := must[*resourcev1.ResourceClaim](t)(claims.Create(t.Context(), newClaim("user", namespace, false), metav1.CreateOptions{}))
		user.Status.Allocation = newAllocation(true)
		_, err = claims.UpdateStatus(t.Context(), user, metav1.UpdateOptions{})
		check("status", err, "status.allocation.devices.results[0].adminAccess")
	}
}

// TestClaimStatusWriters writes the status of a claim as users with some of the permissions for its parts.
func TestClaimStatusWriters(t *testing.T) {
	cfg := startServer(t)
	root := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(cfg))
	const account = "system:serviceaccount:default:driver"
	grant := func(name, user, verbs, resource string, names ...string) {
		t.Helper()
		must[*rbacv1.ClusterRole](t)(root.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: strings.Split(verbs, ","),
				APIGroups: []string{resourcev1.GroupName}, Resources: []string{resource}, ResourceNames: names}}}, metav1.CreateOptions{}))
		must[*rbacv1.ClusterRoleBinding](t)(root.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}, metav1.CreateOptions{}))
	}
	as := func(user, node string) *kubernetes.Clientset {
		c := rest.CopyConfig(cfg)
		c.Impersonate = rest.ImpersonationConfig{UserName: user}
		if node != "" {
			c.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(c))
	}
	grant("status", "ann", "update,patch", "resourceclaims/status")
	grant("account-status", account, "update,patch", "resourceclaims/status")
	grant("scheduler-status", "scheduler", "update,patch", "resourceclaims/status")
	grant("scheduler-binding", "scheduler", "update", "resourceclaims/binding")
	grant("one-driver", "ann", "arbitrary-node:update,arbitrary-node:patch", "resourceclaims/driver", "a.example.com")
	grant("on-node", account, "associated-node:update", "resourceclaims/driver")

	must[*resourcev1.ResourceClaim](t)(root.ResourceV1().ResourceClaims("default").Create(t.Context(), newClaim("c", "default", false), metav1.CreateOptions{}))
	ann, scheduler := as("ann", ""), as("scheduler", "")
	update := func(client *kubernetes.Clientset, change func(s *resourcev1.ResourceClaimStatus)) error {
		t.Helper()
		c := must[*resourcev1.ResourceClaim](t)(root.ResourceV1().ResourceClaims("default").Get(t.Context(), "c", metav1.GetOptions{}))
		change(&c.Status)
		_, err := client.ResourceV1().ResourceClaims("default").UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
		return err
	}
	devices := func(ready string, drivers ...string) func(*resourcev1.ResourceClaimStatus) {
		return func(s *resourcev1.ResourceClaimStatus) {
			s.Devices = nil
			for _, driver := range drivers {
				s.Devices = append(s.Devices, resourcev1.AllocatedDeviceStatus{Driver: driver, Pool: "p", Device: "d",
					Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: ready, LastTransitionTime: metav1.Now()}}})
			}
		}
	}
	allocate := func(s *resourcev1.ResourceClaimStatus) { s.Allocation = newAllocation(false) }
	wantError(t, update(ann, allocate), metav1.StatusReasonInvalid,
		`status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: User "ann" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope`)
	denied := func(err error, verbs, user, verb, driver string) {
		t.Helper()
		wantError(t, err, metav1.StatusReasonInvalid, `status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[`+verbs+`]" permission: resourceclaims.resource.k8s.io "`+driver+`" is forbidden: User "`+user+`" cannot `+verb+` resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default"`)
	}
	for _, step := range []struct {
		what   string
		client *kubernetes.Clientset
		change func(*resourcev1.ResourceClaimStatus)
	}{
		{"allocation", scheduler, allocate},
		{"status of a driver", ann, devices("A", "a.example.com")},
		{"status of all drivers", root, devices("B", "a.example.com", "b.example.com")},
		{"status on a node", as(account, "n"), devices("C", "a.example.com", "b.example.com")},
		{"the same status", as(account, ""), func(*resourcev1.ResourceClaimStatus) {}},
	} {
		if err := update(step.client, step.change); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
	}
	denied(update(ann, devices("D", "a.example.com", "b.example.com")), "arbitrary-node:update", "ann", "arbitrary-node:update", "b.example.com")
	denied(update(ann, devices("C")), "arbitrary-node:update", "ann", "arbitrary-node:update", "b.example.com")
	denied(update(as(account, "m"), devices("D", "a.example.com")), "arbitrary-node:update", account, "arbitrary-node:update", "a.example.com")
	_, err := as(account, "n").ResourceV1().ResourceClaims("default").Patch(t.Context(), "c", types.MergePatchType, []byte(`{"status":{"devices":null}}`), metav1.PatchOptions{}, "status")
	denied(err, "associated-node:patch arbitrary-node:patch", account, "associated-node:patch", "a.example.com")
}
