package storage

// Historian is implemented by stores that keep replaced and deleted records in memory, for watches and for lists of the past.
type Historian interface {
	// HistorySize returns about how many bytes these records take, without their cached values. It may be called from several
	// goroutines at once.
	HistorySize() int
}
