package builtin

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

func TestResourceClaimStatus(t *testing.T) {
	const (
		claim     = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}`
		allocated = `status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: node, device: gpu-0}]}}}`
	)
	d := describeKindOf(t, read(t, claim))
	for name, tc := range map[string]struct {
		old, patch string
		want       []string
	}{
		"allocation": {claim, allocated, nil},
		"request":    {claim, `status: {allocation: {devices: {results: [{request: tpu, driver: gpu.example.com, pool: node, device: gpu-0}]}}}`, []string{`status.allocation.devices.results[0].request: Invalid value: "tpu": must be …`}},
		"reserved":   {claim, `status: {reservedFor: [{resource: pods, name: p, uid: u}]}`, []string{"status.reservedFor: Forbidden: may not be specified when `allocated` is not set"}},
		"changed":    {patched(t, claim, allocated), `status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: node, device: gpu-1}]}}}`, []string{"status.allocation: Invalid value: …"}},
		"other device": {patched(t, claim, allocated), `status: {devices: [{driver: gpu.example.com, pool: node, device: gpu-1, conditions: []}]}`,
			[]string{`status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"node","Device":"gpu-1","ShareID":""}: must be an allocated device in the claim`}},
		"deleted": {patched(t, patched(t, claim, allocated), `metadata: {deletionTimestamp: "2020-01-01T00:00:00Z"}`), `status: {reservedFor: [{resource: pods, name: p, uid: u}]}`,
			[]string{"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"}},
	} {
		t.Run(name, func(t *testing.T) {
			compareMessages(t, tc.want, messages(d.errors("ValidateStatus", read(t, patched(t, tc.old, tc.patch)), read(t, tc.old))))
		})
	}
}

// TestTaintTimes updates the effect of a taint without its time, and with it.
func TestTaintTimes(t *testing.T) {
	const rule = `{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r}, spec: {taint: {key: k, effect: NoSchedule, timeAdded: "2020-01-01T00:00:00Z"}}}`
	for patch, want := range map[string]bool{
		`{}`:                                 true,
		`spec: {taint: {effect: NoExecute}}`: false,
		`spec: {taint: {effect: NoSchedule, value: v}}`: true,
	} {
		old, now := read(t, rule).(*resourcev1.DeviceTaintRule), read(t, patched(t, rule, patch)).(*resourcev1.DeviceTaintRule)
		describeKindOf(t, now).call("Prepare", t.Context(), now, old)
		if got := now.Spec.Taint.TimeAdded.Equal(old.Spec.Taint.TimeAdded); got != want {
			t.Errorf("%s: the time stays: %v, want %v", patch, got, want)
		}
	}
}
