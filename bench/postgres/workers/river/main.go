// River: a client per process. Its completions go to the server in batches, whatever the number of workers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	mark  = "@bench "
	chunk = 1000
	idle  = 2 * time.Second
)

type Job struct {
	Number int `json:"number"`
}

func (Job) Kind() string { return "job" }

// now is CLOCK_MONOTONIC, which all processes of a machine share.
func now() float64 {
	var spec syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&spec)), 0)
	return float64(spec.Sec) + float64(spec.Nsec)/1e9
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fill(ctx context.Context, pool *pgxpool.Pool, jobs int) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(err)
	client, err := river.NewClient(driver, &river.Config{})
	must(err)
	for start := 0; start < jobs; start += chunk {
		var many []river.InsertManyParams
		for number := start; number < min(start+chunk, jobs); number++ {
			many = append(many, river.InsertManyParams{Args: Job{number}})
		}
		_, err = client.InsertManyFast(ctx, many)
		must(err)
	}
}

func drain(ctx context.Context, pool *pgxpool.Pool, workers int) {
	var lock sync.Mutex
	done := []int{}
	began, ended := 0.0, now()
	registered := river.NewWorkers()
	river.AddWorker(registered, river.WorkFunc(func(_ context.Context, job *river.Job[Job]) error {
		lock.Lock()
		defer lock.Unlock()
		if len(done) == 0 {
			began = now()
		}
		done = append(done, job.Args.Number)
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:           registered,
		FetchCooldown:     time.Millisecond,
		FetchPollInterval: 2 * time.Millisecond,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	must(err)
	must(pool.Ping(ctx))
	completed, cancel := client.Subscribe(river.EventKindJobCompleted)
	defer cancel()
	fmt.Println(mark + "ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	must(client.Start(ctx))
	for quiet := false; !quiet; {
		select {
		case <-completed:
			ended = now()
		case <-time.After(idle):
			quiet = true
		}
	}
	must(client.Stop(ctx))
	report := map[string]any{"ended": ended, "jobs": done}
	if began > 0 {
		report["began"] = began
	}
	text, err := json.Marshal(report)
	must(err)
	fmt.Println(mark + string(text))
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Args[2])
	must(err)
	number, err := strconv.Atoi(os.Args[len(os.Args)-1])
	must(err)
	if os.Args[1] == "fill" {
		fill(ctx, pool, number)
	} else {
		drain(ctx, pool, number)
	}
	pool.Close()
}
