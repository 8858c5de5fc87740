package retry

type Backoff struct{}

var DefaultRetry Backoff

func RetryOnConflict(b Backoff, fn func() error) error { return fn() }
