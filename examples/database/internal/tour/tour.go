// Package tour
package tour
import ("time";"flyball.dev/examples/internal/example";"flyball.dev/examples/database/internal/backup")
const PollInterval = 50*time.Millisecond
func Steps(w *example.World, b *backup.Server) []example.Step {return nil}
