package robustness

import (
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// withoutEffects returns reports without the failed requests that have changed nothing, as the requests that took place show. The
// validation itself leaves out some of these; each one that stays may have taken place at any time, and doubles its work.
func withoutEffects(reports []report.ClientReport, persisted []model.EtcdRequest) []report.ClientReport {
	revoked := map[int64]bool{}
	deleted := map[string]int{} // how many more deletions of a key there are than clients know of
	for _, r := range persisted {
		switch r.Type {
		case model.LeaseRevoke:
			revoked[r.LeaseRevoke.LeaseID] = true
		case model.Txn:
			for _, o := range r.Txn.OperationsOnSuccess {
				if o.Type == model.DeleteOperation {
					deleted[o.Delete.Key]++
				}
			}
		}
	}
	for _, c := range reports {
		for _, op := range c.KeyValue {
			for _, key := range deletions(op) {
				deleted[key]--
			}
		}
	}
	kept := slices.Clone(reports)
	for i := range kept {
		kept[i].KeyValue = slices.DeleteFunc(slices.Clone(kept[i].KeyValue), func(op porcupine.Operation) bool {
			if op.Output.(model.MaybeEtcdResponse).Error == "" {
				return false
			}
			switch r := op.Input.(model.EtcdRequest); r.Type {
			case model.LeaseGrant:
				return true // nobody knows the lease
			case model.LeaseRevoke:
				return !revoked[r.LeaseRevoke.LeaseID]
			case model.Txn:
				return !slices.ContainsFunc(r.Txn.AllOperations(), func(o model.EtcdOperation) bool {
					return o.Type == model.PutOperation || o.Type == model.DeleteOperation && deleted[o.Delete.Key] != 0
				})
			}
			return false
		})
	}
	return kept
}

// deletions returns the keys that a request has deleted, as its response says.
func deletions(op porcupine.Operation) (keys []string) {
	request, response := op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)
	if request.Type != model.Txn || response.Txn == nil {
		return nil
	}
	operations := request.Txn.OperationsOnSuccess
	if response.Txn.Failure {
		operations = request.Txn.OperationsOnFailure
	}
	for i, o := range operations {
		if o.Type == model.DeleteOperation && response.Txn.Results[i].Deleted > 0 {
			keys = append(keys, o.Delete.Key)
		}
	}
	return keys
}

// TestWithoutEffects: a failed request stays if it may have taken place.
func TestWithoutEffects(t *testing.T) {
	txn := func(operations ...model.EtcdOperation) model.EtcdRequest {
		return model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: operations}}
	}
	revoke := func(id int64) model.EtcdRequest {
		return model.EtcdRequest{Type: model.LeaseRevoke, LeaseRevoke: &model.LeaseRevokeRequest{LeaseID: id}}
	}
	grant := model.EtcdRequest{Type: model.LeaseGrant, LeaseGrant: &model.LeaseGrantRequest{}}
	failed := model.MaybeEtcdResponse{Error: "unavailable"}
	done := func(deleted int64) model.MaybeEtcdResponse {
		return model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{Txn: &model.TxnResponse{Results: []model.EtcdOperationResult{{Deleted: deleted}}}}}
	}
	persisted := []model.EtcdRequest{txn(put("a", "1", 0)), txn(remove("a")), txn(remove("b")), txn(remove("b")), revoke(1)}
	for _, test := range []struct {
		name     string
		request  model.EtcdRequest
		response model.MaybeEtcdResponse
		stays    bool
	}{
		{"a deletion that is known", txn(remove("a")), done(1), true},
		{"a deletion of nothing", txn(remove("a")), done(0), true},
		{"one of two deletions that took place", txn(remove("b")), done(1), true},
		{"a failed deletion, all known", txn(remove("a")), failed, false},
		{"a failed deletion, one unknown", txn(remove("b")), failed, true},
		{"a failed deletion, none", txn(remove("c")), failed, false},
		{"a failed put", txn(put("c", "1", 0)), failed, true},
		{"a failed put with a deletion", txn(remove("c"), put("d", "1", 0)), failed, true},
		{"a failed revocation that took place", revoke(1), failed, true},
		{"a failed revocation", revoke(2), failed, false},
		{"a failed grant", grant, failed, false},
	} {
		reports := []report.ClientReport{{ClientID: 1, KeyValue: []porcupine.Operation{{Input: test.request, Output: test.response}}}}
		if test.response.Error != "" { // with the requests that succeeded
			reports = append(reports, report.ClientReport{ClientID: 2, KeyValue: []porcupine.Operation{
				{Input: txn(remove("a")), Output: done(1)}, {Input: txn(remove("b")), Output: done(1)},
			}})
		}
		if got := len(withoutEffects(reports, persisted)[0].KeyValue) == 1; got != test.stays {
			t.Errorf("%s: it stays: %t", test.name, got)
		}
		if len(reports[0].KeyValue) != 1 {
			t.Errorf("%s: the report has changed", test.name)
		}
	}
}
