package etcdserver

import (
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

// checkSize returns etcd's error for a request that is too large for its log.
func checkSize(r proto.Message) error {
	if proto.Size(r) > maxRequest {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	return nil
}

func checkRange(r *etcdserverpb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if _, ok := etcdserverpb.RangeRequest_SortOrder_name[int32(r.SortOrder)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	if _, ok := etcdserverpb.RangeRequest_SortTarget_name[int32(r.SortTarget)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func checkPut(r *etcdserverpb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func checkDelete(r *etcdserverpb.DeleteRangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// checkTxn checks a transaction that may have a number of operations. A transaction inside another one may have as many
// as the outer one has left.
func checkTxn(r *etcdserverpb.TxnRequest, operations int) error {
	n := max(len(r.Compare), len(r.Success), len(r.Failure))
	if n > operations {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, branch := range [][]*etcdserverpb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if err := checkOperation(op, operations-n); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOperation(op *etcdserverpb.RequestOp, operations int) error {
	switch r := op.Request.(type) {
	case *etcdserverpb.RequestOp_RequestRange:
		return checkRange(r.RequestRange)
	case *etcdserverpb.RequestOp_RequestPut:
		return checkPut(r.RequestPut)
	case *etcdserverpb.RequestOp_RequestDeleteRange:
		return checkDelete(r.RequestDeleteRange)
	case *etcdserverpb.RequestOp_RequestTxn:
		return checkTxn(r.RequestTxn, operations)
	}
	return rpctypes.ErrGRPCKeyNotFound // as in etcd
}

// footprint has the keys that a branch of a transaction may write.
type footprint struct {
	puts    map[string]bool
	deletes []interval
}

func (f *footprint) deletesKey(key string) bool {
	for _, i := range f.deletes {
		if i.contains(key) {
			return true
		}
	}
	return false
}

// add adds a key that is put. A key of the set shared may be there already.
func (f *footprint) add(key string, shared map[string]bool) error {
	if f.puts[key] && !shared[key] || f.deletesKey(key) {
		return rpctypes.ErrGRPCDuplicateKey
	}
	f.puts[key] = true
	return nil
}

// checkBranch returns the footprint of a branch, or an error if a key may be written twice. The branches of a transaction
// inside exclude each other, so both may put the same key. As in etcd, a deletion from a key on does not count, and
// neither does one in a transaction inside that follows another.
func checkBranch(branch []*etcdserverpb.RequestOp) (*footprint, error) {
	f := &footprint{puts: map[string]bool{}}
	for _, op := range branch {
		if r := op.GetRequestDeleteRange(); r != nil && !isFromKey(r.RangeEnd) {
			f.deletes = append(f.deletes, newInterval(r.Key, r.RangeEnd))
		}
	}
	for _, op := range branch {
		if r := op.GetRequestTxn(); r != nil {
			if err := f.addTxn(r); err != nil {
				return nil, err
			}
		}
	}
	for _, op := range branch {
		if r := op.GetRequestPut(); r != nil {
			if err := f.add(string(r.Key), nil); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func (f *footprint) addTxn(r *etcdserverpb.TxnRequest) error {
	success, err := checkBranch(r.Success)
	if err != nil {
		return err
	}
	failure, err := checkBranch(r.Failure)
	if err != nil {
		return err
	}
	for key := range success.puts {
		if err := f.add(key, nil); err != nil {
			return err
		}
	}
	for key := range failure.puts {
		if err := f.add(key, success.puts); err != nil {
			return err
		}
	}
	f.deletes = append(append(f.deletes, success.deletes...), failure.deletes...)
	return nil
}

func isFromKey(rangeEnd []byte) bool { return len(rangeEnd) == 1 && rangeEnd[0] == 0 }
