package restore_test

import (
	"context"
	"errors"
	"testing"

	"flyball.dev/controllers/internal/restore"
)

func TestOnce(t *testing.T) {
	var once restore.Once
	failure, calls := errors.New("failure"), 0
	for i, want := range []error{failure, failure, nil, nil} {
		err := once.Do(t.Context(), func(context.Context) error {
			if calls++; calls < 3 {
				return failure
			}
			return nil
		})
		if !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
	if calls != 3 {
		t.Errorf("the function was called %d times", calls)
	}
}
