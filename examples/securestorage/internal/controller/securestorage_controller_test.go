package controller

import (
	"errors"
	"net/http"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/internal/cloud"
)

// TestAccountName checks that names follow from UIDs, and that the cloud accepts them.
func TestAccountName(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	names := map[string]bool{}
	for _, uid := range []types.UID{"a842acd3-76d5-4c5e-8040-a2a70571e684", "a842acd3-76d5-4c5e-8041-a2a70571e684", "1"} {
		name := accountName(uid)
		if name != accountName(uid) || !valid.MatchString(name) || names[name] {
			t.Errorf("accountName(%q) = %q", uid, name)
		}
		names[name] = true
	}
}

// TestFailed checks which errors are retried with backoff.
func TestFailed(t *testing.T) {
	for _, tt := range []struct {
		err     error
		reason  string
		backoff bool
	}{
		{&cloud.Error{Status: http.StatusNotFound}, storagev1.ReasonRefused, false},
		{&cloud.Error{Status: http.StatusForbidden}, storagev1.ReasonRefused, false},
		{&cloud.Error{Status: http.StatusUnprocessableEntity}, storagev1.ReasonRefused, false},
		{&cloud.Error{Status: http.StatusTooManyRequests}, storagev1.ReasonCloudUnavailable, true},
		{&cloud.Error{Status: http.StatusBadGateway}, storagev1.ReasonCloudUnavailable, true},
		{&cloud.Error{Status: http.StatusServiceUnavailable}, storagev1.ReasonCloudUnavailable, true},
		{errors.New("connection refused"), storagev1.ReasonCloudUnavailable, true},
	} {
		p := failed(storagev1.PhaseEnablingKey, nil, tt.err)
		if p.phase != storagev1.PhaseEnablingKey || p.reason != tt.reason || (p.err != nil) != tt.backoff {
			t.Errorf("%v: %+v", tt.err, p)
		}
	}
}
