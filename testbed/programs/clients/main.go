// Command clients runs what real users of a workspace run, until it is told to stop, and reports what they have seen:
// informers, writers with optimistic locking, server-side apply, leader election, a controller, a provider's controller
// on the virtual workspace of its APIExport, and kubectl.
//
// Commands come in on standard input as lines of JSON; each is answered by one line:
//
//	{"chapter": "move 1"}                               counts from now on are kept under this name
//	{"moment": {"name": "fence 1", "at": 1760000000000}} failures are told relative to the nearest moment
//	{"served": true}                                    the answer comes when every client but informers has been
//	                                                    served once more
//	{"end": true}                                       stops all clients; the answer is the report
//
// The first line on standard output is {"ready": true}, when every informer has synced and every client has been served.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// options is what the flags say.
type options struct {
	kubeconfig string
	context    string
	cluster    string
	path       string
	provider   string
	export     string
	kubectl    string
	scratch    string
	pause      time.Duration
}

// resources are the three ways in which a workspace has an API.
var resources = []resource{
	{name: "configmaps", gvr: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, kind: "ConfigMap"},
	{name: "gadgets", gvr: schema.GroupVersionResource{Group: "shop.rehome.test", Version: "v1", Resource: "gadgets"}, kind: "Gadget"},
	{name: "widgets", gvr: schema.GroupVersionResource{Group: "export.rehome.test", Version: "v1", Resource: "widgets"}, kind: "Widget"},
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "of the front-proxy")
	flag.StringVar(&o.context, "context", "base", "context of the kubeconfig without a path")
	flag.StringVar(&o.cluster, "cluster", "", "id of the workspace's logical cluster")
	flag.StringVar(&o.path, "path", "", "path of the workspace")
	flag.StringVar(&o.provider, "provider", "", "id of the logical cluster that exports widgets")
	flag.StringVar(&o.export, "export", "export.rehome.test", "name of the APIExport and of its APIExportEndpointSlice")
	flag.StringVar(&o.kubectl, "kubectl", "", "executable of kubectl")
	flag.StringVar(&o.scratch, "scratch", "", "folder for kubectl's caches")
	flag.DurationVar(&o.pause, "pause", 600*time.Millisecond, "between two writes of one writer")
	flag.Parse()
	// What client-go logs when a watch is cut is told by the report.
	klog.SetOutput(os.Stderr)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all, err := startClients(ctx, o)
	if err != nil {
		return err
	}
	if err := all.untilServed(ctx, append([]string{"informer by id", "informer by path"}, active...)); err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	if err := output.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	if err := obey(ctx, all, output); err != nil {
		return err
	}
	return output.Encode(all.finish(ctx))
}

type command struct {
	Chapter string  `json:"chapter"`
	Moment  *moment `json:"moment"`
	Served  bool    `json:"served"`
	End     bool    `json:"end"`
}

// obey reads commands until it is told to end, or until the end of the input.
func obey(ctx context.Context, all *clients, output *json.Encoder) error {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var wanted command
		if err := json.Unmarshal(input.Bytes(), &wanted); err != nil {
			return fmt.Errorf("%q is no command: %w", input.Text(), err)
		}
		if wanted.End {
			return nil
		}
		if wanted.Chapter != "" {
			all.recorder.begin(wanted.Chapter)
		}
		if wanted.Moment != nil {
			all.recorder.addMoment(*wanted.Moment)
		}
		if wanted.Served {
			all.recorder.forgetServed()
			if err := all.untilServed(ctx, active); err != nil {
				return err
			}
		}
		if err := output.Encode(map[string]int64{"at": time.Now().UnixMilli()}); err != nil {
			return err
		}
	}
	return input.Err()
}
