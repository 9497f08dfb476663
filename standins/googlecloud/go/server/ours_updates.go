package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"

	sinks "cloud.google.com/go/logging/apiv2/loggingpb"
	roles "github.com/GoogleCloudPlatform/k8s-config-connector/mockgcp/generated/mockgcp/iam/admin/v1"
	buckets "github.com/GoogleCloudPlatform/k8s-config-connector/mockgcp/generated/mockgcp/storage/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Updates that mockgcp refuses: the description and stage of a custom role, the destination and exclusions of a log sink,
// and labels that are taken from a bucket.

var (
	rolePath = regexp.MustCompile(`^/v1/((?:projects|organizations)/[^/]+/roles/[^/:]+)$`)
	sinkPath = regexp.MustCompile(`^/v2/(projects/[^/]+/sinks/[^/]+)$`)
)

func (c *cloud) serveUpdates(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if r.Method != http.MethodPatch {
		return false
	}
	if found := rolePath.FindStringSubmatch(r.URL.Path); found != nil && r.Host == "iam.googleapis.com" {
		c.update(w, r, found[1], &roles.Role{}, parse(body), func(role map[string]any) {
			role["name"], role["etag"] = found[1], base64.StdEncoding.EncodeToString([]byte(now()))
		})
		return true
	}
	if found := sinkPath.FindStringSubmatch(r.URL.Path); found != nil && r.Host == "logging.googleapis.com" {
		c.update(w, r, found[1], &sinks.LogSink{}, parse(body), func(sink map[string]any) {
			sink["name"], sink["updateTime"] = path.Base(found[1]), now()
		})
		return true
	}
	if found := bucketPath.FindStringSubmatch(r.URL.Path); found != nil && r.Host == "storage.googleapis.com" {
		return c.relabelBucket(w, r, found[1], parse(body))
	}
	return false
}

// update changes the fields that the mask names, and what the API itself writes.
func (c *cloud) update(w http.ResponseWriter, r *http.Request, name string, object proto.Message, given map[string]any, write func(map[string]any)) {
	address := "https://" + r.Host + r.URL.Path
	if !c.exists(address) {
		notFound(w, name)
		return
	}
	err := c.rewrite(name, object, func(kept map[string]any) {
		patch(kept, given, r.URL.Query().Get("updateMask"))
		write(kept)
	})
	if err != nil {
		fail(w, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return
	}
	code, reply := c.call(http.MethodGet, address, nil)
	answer(w, code, reply)
}

// relabelBucket does what a merge of JSON does: a label that is null goes, one that is not named stays. The mock takes
// the labels that it is given for all of them, unless there are none.
func (c *cloud) relabelBucket(w http.ResponseWriter, r *http.Request, name string, given map[string]any) bool {
	changes, found := given["labels"]
	if !found {
		return false
	}
	if _, found := c.objects.hasBucket(name); !found {
		fail(w, http.StatusNotFound, "", "The specified bucket does not exist.")
		return true
	}
	kept := map[string]any{}
	err := c.rewrite("buckets/"+name, &buckets.Bucket{}, func(bucket map[string]any) {
		if changes != nil {
			kept = sub(bucket, "labels")
		}
		for key, value := range sub(given, "labels") {
			if value == nil {
				delete(kept, key)
			} else {
				kept[key] = value
			}
		}
		bucket["labels"] = kept
	})
	if err != nil {
		fail(w, http.StatusBadRequest, "", err.Error())
		return true
	}
	given["labels"] = kept
	changed, _ := json.Marshal(given)
	return c.serveMock(w, r, changed)
}

// rewrite changes the JSON of an object that a mock keeps.
func (c *cloud) rewrite(name string, object proto.Message, change func(map[string]any)) error {
	if err := c.store.Get(context.Background(), name, object); err != nil {
		return err
	}
	before, err := protojson.Marshal(object)
	if err != nil {
		return err
	}
	changed := parse(before)
	change(changed)
	after, _ := json.Marshal(changed)
	proto.Reset(object)
	if err := protojson.Unmarshal(after, object); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return c.store.Update(context.Background(), name, object)
}
